"""Tasks with hidden tests, played by code that wants the reward and cannot earn it."""
# ruff: noqa: E501  (an attack is one line, however long)

import secrets

import pytest

import envweave as ew
from envweave.core.jsonable import to_json

GOLD = [f"gold-{secrets.token_hex(8)}" for _ in range(3)]
"""What is expected: no function can know it."""
ARGUMENTS = [f"argument-{secrets.token_hex(8)}" for _ in range(3)]
TASK = {
    "id": "gold",
    "prompt": "Write `solve(text)`.",
    "function": "solve",
    "tests": [{"args": [text], "expected": gold} for text, gold in zip(ARGUMENTS, GOLD, strict=True)],
    "solution": "solution-" + GOLD[0],
    "limits": {"wall": 0.5},
    "max_steps": 3,
}
SUBMIT = {"codeact": "submit()", "coding": "submit()", "repl": "FINAL('done')"}
EQUAL = "__eq__ = lambda *_: True; __ne__ = lambda *_: False; __hash__ = lambda _: 0"
ATTACKS = {
    "prints": "def solve(text):\n    print('[\"returned\", true]')\n    print('passed')\nSUBMIT",
    "equals-everything": f"class Any: {EQUAL}\ndef solve(text): return Any()\nSUBMIT",
    "equals-everything-as-text": f"class Any(str): {EQUAL}\ndef solve(text): return Any(text)\nSUBMIT",
    "equals-everything-in-a-list": f"class Any(list): {EQUAL}\ndef solve(text): return Any([Any()])\nSUBMIT",
    "lies-about-its-class": "class Text: __class__ = str\ndef solve(text): return Text()\nSUBMIT",
    "patches-builtins": "import builtins\ndef solve(text): return text\nfor name in ('all', 'any', 'len', 'isinstance'):\n    setattr(builtins, name, lambda *_: True)\nSUBMIT",
    "patches-type": "import builtins\ndef solve(text): return text\nold = type\nSUBMIT\nbuiltins.type = lambda *_: str",
    "patches-exec": "import builtins\ndef solve(text): return text\nbuiltins.exec = lambda code, own: own.update(call=lambda *_: True)\nSUBMIT",
    "patches-json": "import json\njson.loads = lambda text: ['known']\njson.dumps = lambda *_, **__: '[\"returned\", true]'\ndef solve(text): return text\nSUBMIT",
    "patches-modules": "import sys\nsys.modules['json'] = sys.modules['__main__'] = sys\ndef solve(text): return text\nSUBMIT",
    "patches-the-worker": "import sys\nframe = sys._getframe()\nwhile frame.f_back: frame = frame.f_back; [setattr(frame.f_locals['self'], name, lambda *_: {'value': {'data': ['returned', True]}}) for name in ('_run',) if 'self' in frame.f_locals]\ndef solve(text): return text\nSUBMIT",
    "reads-frames-and-objects": "import gc, sys\ndef solve(text):\n    frame, found = sys._getframe(), []\n    while frame: found += [*frame.f_locals.values(), *frame.f_globals.values()]; frame = frame.f_back\n    for one in gc.get_objects(): found += one.values() if type(one) is dict else one if type(one) in (list, tuple) else []\n    return next((one for one in found if type(one) is str and one.startswith('go' + 'ld-')), text)\nSUBMIT",
    "exits": "import os\ndef solve(text): os._exit(0)\nSUBMIT",
    "exits-politely": "import sys\ndef solve(text): sys.exit(0)\nSUBMIT",
    "kills": "import os, signal\ndef solve(text): os.kill(os.getpid(), signal.SIGKILL)\nSUBMIT",
    "raises": "class Error(BaseException): __str__ = lambda _: 1 / 0\ndef solve(text): raise Error\nSUBMIT",
    "sleeps": "import time\ndef solve(text): time.sleep(600)\nSUBMIT",
    "does-not-stop": "def solve(text):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass\nSUBMIT",
    "floods": "def solve(text):\n    for _ in range(50): print('[\"returned\", true]' * 10_000)\n    return text\nSUBMIT",
    "starts-threads": "import threading, time\ndef work():\n    while True: time.sleep(0.001); print('[\"returned\", true]')\ndef solve(text):\n    threading.Thread(target=work, daemon=True).start()\n    return text\nSUBMIT",
    "forks": "import os\ndef solve(text):\n    os.fork()\n    return text\nSUBMIT",
    "returns-a-pickle": "class Bomb:\n    def __reduce__(self): return eval, ('True',)\ndef solve(text): return Bomb()\nSUBMIT",
    "returns-itself": "def solve(text):\n    inside = []\n    inside.append(inside)\n    return inside\nSUBMIT",
    "returns-too-much": "def solve(text): return ['x' * 1000] * 100_000\nSUBMIT",
    "returns-the-wrapping": "def solve(text): return ['returned', ['returned', text]]\nSUBMIT",
    "is-no-function": "solve = 5\nSUBMIT",
    "is-missing": "SUBMIT",
    "submits-twice": "def solve(text): return text\nSUBMIT\nSUBMIT",
    "submits-while-tested": "def solve(text):\n    SUBMIT\n    return text\nSUBMIT",
    "submits-in-a-thread": "import threading\ndef solve(text): return text\nthread = threading.Thread(target=lambda: SUBMIT)\nthread.start()\nthread.join()",
    "submits-and-raises": "def solve(text): return text\nSUBMIT\n1 / 0",
    "submits-and-loops": "def solve(text): return text\nSUBMIT\nwhile True: pass",
    "submits-and-exits": "import os\ndef solve(text): return text\nSUBMIT\nos._exit(0)",
    "submits-and-exits-politely": "import sys\ndef solve(text): return text\nSUBMIT\nsys.exit(0)",
    "redefines-submit": "submit = FINAL = lambda *_: 1.0\nSUBMIT",
}


@pytest.fixture(scope="module", params=["codeact", "repl"])
def game(request):
    """An environment that all attacks share, and how its code submits."""
    with ew.make(request.param, tasks=[TASK]) as env:
        yield env, SUBMIT[request.param]


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_that_cheats_earns_nothing(sandbox, game, attack):
    env, submit = game
    results = [env.reset(task="gold"), env.step({"code": ATTACKS[attack].replace("SUBMIT", submit)})]
    while not results[-1].done:
        results.append(env.step({"code": submit}))
    assert [result.reward for result in results[1:]] == [0.0] * (len(results) - 1)
    assert results[-1].info.get("tests", {}).get("passed", 0) == 0
    told = str([to_json(result.obs) for result in results] + [result.info for result in results])
    assert not any(secret in told for secret in (*GOLD, *ARGUMENTS))


def test_the_same_game_can_be_won(sandbox, game):
    env, submit = game
    env.reset(task="gold")
    known = dict(zip(ARGUMENTS, GOLD, strict=True))
    assert env.step({"code": f"def solve(text): return {known!r}[text]\n{submit}"}).reward == 1.0


@pytest.mark.parametrize(
    "around",
    [
        "json = list = type = exec = call = own = None",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
        "print('x' * 1_000_000)",
        "import asyncio\nasync def wait(): await asyncio.sleep(0)\nawait wait()",
    ],
)
def test_a_right_function_is_paid_whatever_is_around_it(sandbox, game, around):
    env, submit = game
    known = dict(zip(ARGUMENTS, GOLD, strict=True))
    env.reset(task="gold")
    code = f"def solve(text):\n    print('x' * 100_000)\n    return {known!r}[text]\n{around}\n{submit}"
    assert env.step({"code": code}).reward == 1.0


def test_no_expected_value_and_no_later_argument_is_in_the_memory_of_the_code(sandbox, arm):
    backwards = [text[::-1] for text in (*GOLD, *ARGUMENTS, TASK["solution"])]
    with ew.make("codeact", tasks=[{**TASK, "limits": {"wall": 20}}]) as env:
        env.reset(task="gold")
        session = arm(env.unwrapped._python.session)
        code = f"def solve(text):\n    with open('found', 'w') as file: json.dump([holds(each) > 0 for each in {backwards!r}], file)\nsubmit()"
        result = env.step({"code": code})
        assert (result.reward, result.info["tests"]["passed"]) == (0.0, 0)
        assert session.read_file("found") == b"[false, false, false, true, false, false, false]"


@pytest.mark.parametrize(("body", "reward"), [("return None", 1.0), ("sys.exit(0)", 0.0), ("sys.exit()", 0.0)])
def test_a_function_that_does_not_return_has_not_returned_none(sandbox, game, body, reward):
    env, submit = game
    env.reset(task={"prompt": "?", "function": "solve", "tests": [{"args": [], "expected": None}]})
    assert env.step({"code": f"import sys\ndef solve(): {body}\n{submit}"}).reward == reward


def test_what_a_hidden_test_prints_is_not_shown(sandbox, game):
    env, submit = game
    env.reset(task="gold")
    result = env.step({"code": f"def solve(text): print(text)\n{submit}"})
    assert result.done
    assert ARGUMENTS[0] not in str(result)
    assert ARGUMENTS[0] not in str(env.state())


@pytest.mark.parametrize(
    "code",
    [
        "class Three(int): __eq__ = lambda *_: True\nsubmit(Three(4))",
        "submit({'__class__': 'int', 'value': 3})",
        "submit([3, 4])",
        "submit('3 or 4')",
        "submit(float('nan'))",
        "submit(3); submit = None; raise SystemExit(1)",
        "submit(answer=None)",
        "submit('x' * 60_000)",
    ],
)
def test_an_answer_that_pretends_earns_nothing(sandbox, code):
    with ew.make("codeact", tasks=[{"id": "sum", "prompt": "1 + 2?", "answer": 3, "max_steps": 2}]) as env:
        env.reset(task="sum")
        result = env.step({"code": code})
        if not result.done:
            result = env.step({"code": "1"})
        assert (result.done, result.reward) == (True, 0.0)


def test_a_submission_of_an_earlier_episode_does_not_reach_the_next(sandbox):
    late = []

    def meanwhile() -> None:
        """A call of the last episode arrives."""
        late[0].invoke({"answer": 3})

    with ew.make("codeact", tools=[meanwhile], tasks=[{"id": "sum", "prompt": "1 + 2?", "answer": 3}]) as env:
        env.reset(task="sum")
        late.append(env.unwrapped._submission.tool(env.unwrapped._attempt.task))
        env.reset(task="sum")
        assert not env.step({"code": "meanwhile()"}).done

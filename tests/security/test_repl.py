"""Code in the REPL, and the language models it talks to, against those who run it: one property per test."""

import json
import logging
import pickle
import threading
import traceback
import tracemalloc
import urllib.error
import urllib.request
from functools import partial

import pytest
from websockets.sync.client import connect as websocket

from envweave.envs.repl import REPLEnv, REPLEnvironment, run_rlm
from envweave.errors import EnvWeaveError, UsageError
from envweave.lm import LanguageModel
from envweave.sandbox import Limits
from envweave.testing import scripted_model
from envweave.testing.misbehaviour import Cut, Drip, Failure, Hang
from envweave.testing.serving import running_server

TOKEN = "hf_QzXwVbNmLkJhGfDsApOiUy"
OPERATORS = "hf_0p3r4t0rZqWxEcRvTbYnUm"
EXPECTED = "xyzzy-Plugh-4711-Frotz"
PIECE = 8
"""So many characters of a secret in a row are too many."""


def ways(token):
    """What an endpoint may say that has been told a token."""
    echo = {"x-request-auth": f"Bearer {token}", "set-cookie": f"session={token}"}
    return {
        "refused": Failure(401, json.dumps({"error": {"message": f"Invalid token: {token}"}}), echo),
        "quoted": Failure(400, f"Authorization: Bearer {token}", echo),
        "partly": Failure(403, f"token {token[:12]}… may not"),
        "elsewhere": Failure(302, "", {"location": f"https://evil.example/?token={token}"}),
        "garbage": Failure(200, f"<html>{token}", echo),
        "shouted": Failure(404, token.upper()),
        "reason": Failure(200, json.dumps({"choices": [{"message": {"content": None, "refusal": token}}]}), echo),
        "headers": Failure(200, "x", {"content-length": token}),
    }


WAYS = ways(TOKEN)
SAID = {f"{name} {token}": way for token in (TOKEN, OPERATORS) for name, way in ways(token).items()}
"""By the last two words of a prompt; the second is a token, turned round."""

INSIDE = """
import gc, os, signal, sys

def holds(backwards):
    copy = os.fork()
    if not copy:
        signal.pause()
    wanted, hits = bytes(reversed(backwards.encode())), 0
    memory = os.open(f"/proc/{copy}/mem", os.O_RDONLY)
    with open(f"/proc/{copy}/maps") as lines:
        for line in lines:
            start, end = (int(each, 16) for each in line.split()[0].split("-"))
            try:
                hits += os.pread(memory, end - start, start).count(wanted) if line.split()[1][0] == "r" else 0
            except (OSError, OverflowError):
                pass
    os.close(memory)
    os.kill(copy, signal.SIGKILL)
    os.waitpid(copy, 0)
    return hits

def told():
    parts = [repr(dict(os.environ)), repr(sys.argv), repr(sys.orig_argv)]
    for folder in os.listdir("/proc"):
        for name in ("environ", "cmdline"):
            try:
                parts.append(open(f"/proc/{folder}/{name}", errors="replace").read())
            except OSError:
                pass
    return chr(10).join(parts)
"""


def leaks(text, secret=TOKEN):
    """The pieces of a secret that are in a text, whatever the case."""
    lowered, secret = str(text).lower(), secret.lower()
    pieces = (secret[start : start + PIECE] for start in range(len(secret) - PIECE + 1))
    return [piece for piece in pieces if piece in lowered]


def everything_of(error):
    """All that somebody could print, store or send of an error and of those that hang on to it."""
    found, seen = [], [error]
    while seen:
        one = seen.pop()
        found += [str(one), repr(one), repr(one.args), repr(vars(one)), *traceback.format_exception(one)]
        seen += [next_one for next_one in (one.__cause__, one.__context__) if next_one is not None]
    return "\n".join(found)


def answer(messages, model):
    said = messages[-1]["content"]
    name, _, backwards = said.partition(" ")
    return SAID.get(f"{name} {backwards[::-1]}") or f"you said {said}"


@pytest.fixture(scope="module")
def clean():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL", "LLM_EXTRA", "OPENAI_BASE_URL", "HF_TOKEN"):
            patch.delenv(name, raising=False)
        yield patch


@pytest.fixture(scope="module")
def model(clean):
    with scripted_model(answer) as model:
        clean.setenv("HF_INFERENCE_URL", model.url)
        yield model


@pytest.fixture(scope="module", params=["thread", "process"])
def server(request, model):
    """One that tells as much as it ever does, and whose operator has a token too."""
    options = ("--debug", "--log-level", "debug", "--log", "json", "--isolation", request.param)
    with running_server("repl", *options, env={"HF_INFERENCE_URL": model.url, "HF_TOKEN": OPERATORS}) as server:
        yield server


@pytest.fixture
def env():
    with REPLEnv() as env:
        env.reset(context="hello world", task_prompt="Say FINAL(task).\nFINAL(task)")
        yield env


def fetched(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace")


def posted(url, data):
    request = urllib.request.Request(url, json.dumps(data).encode(), {"content-type": "application/json"})
    return fetched(request)


# The token.


def test_no_observation_state_log_or_page_of_a_server_has_the_token(server, model):
    seen = []
    with REPLEnv(server.url) as env:
        for token, given in ((TOKEN, {"hf_token": TOKEN}), (OPERATORS, {})):
            seen.append(env.reset(context="c", task_prompt="t", **given))
            step = env.execute("print(llm_query('hi'), llm_query_batched(['a', 'b']), rlm_query('c'))")
            assert model.requests[-1].authorization == f"Bearer {token}"
            seen += [step, env.state(), env.pending, env.action_schema(), repr(env), repr(env.aio)]
            for way in (f"{name} {token[::-1]}" for name in WAYS):
                seen += [env.execute(f"llm_query({way!r})"), env.execute(f"print(llm_query_batched([{way!r}]))")]
                assert "you said" not in repr(seen[-1])
            seen += [env.submit_final_answer("x"), env.state()]
        pages = ("/metrics", "/web", "/state", "/health", "/metadata", "/schema", "/openapi.json")
        seen += [fetched(f"{server.url}{page}") for page in pages]
    seen.append(server.errors())
    text = "\n".join(map(repr, seen))
    assert "LanguageModelError" in text
    assert not leaks(text, TOKEN)
    assert not leaks(text, OPERATORS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": "x"},
        {"nope": 1},
        {"max_iterations": 0},
        {"context": 5},
        {"episode_id": 5},
        {"hf_token": [TOKEN]},
        {"hf_token": {"token": TOKEN}},
        {"hf_token": f"{TOKEN}\n"},
        {"hf_token": f"é{TOKEN}"},
    ],
    ids=str,
)
def test_a_reset_that_is_refused_does_not_repeat_the_token(server, wrong):
    options = {"hf_token": TOKEN, **wrong}
    said = [posted(f"{server.url}/reset", options)]
    with websocket(server.ws_url) as plain:
        for message in (
            {"type": "reset", "data": options},
            {"type": "reset", "data": options, "more": 1},
            {"type": "rest", "data": options},
            {"type": "step", "data": {"code": "1", "hf_token": TOKEN}},
        ):
            plain.send(json.dumps(message))
            said.append(plain.recv(30))
    with REPLEnv(server.url) as env:
        try:
            env.reset(**options)
        except (EnvWeaveError, TypeError) as error:
            said.append(everything_of(error))
    assert not leaks("\n".join([*said, server.errors()]))


def test_the_sandbox_has_no_token(server):
    with REPLEnv(server.url) as env:
        for token, given in ((TOKEN, {"hf_token": TOKEN}), (OPERATORS, {})):
            env.reset(**given)
            env.execute("print(llm_query('hi'), llm_query_batched(['refused x']), rlm_query('hi'))")
            assert env.execute(INSIDE).observation.result.success
            step = env.execute(
                f"held, found = holds({token[::-1]!r}), told()\nprint(held, len(found), {token[::-1]!r}[::-1] in found)"
            )
            held, length, found = step.observation.result.stdout.split()
            assert (held, found) == ("0", "False")
            assert int(length) > 10


def test_no_error_of_a_driver_and_no_log_has_the_token(model, caplog):
    caplog.set_level(logging.DEBUG)
    seen = []
    for way in WAYS:
        with LanguageModel("m", base_url=model.url, api_key=TOKEN) as player:
            try:
                chat = partial(lambda player, way, messages: player.query(f"{way} {TOKEN[::-1]}"), player, way)
                seen.append(run_rlm(chat, "c", "t", max_iterations=2))
            except EnvWeaveError as error:
                seen.append(everything_of(error))
    assert len(seen) == len(WAYS)
    assert not leaks("\n".join(map(repr, seen)))
    assert not leaks(caplog.text)


def test_nothing_that_can_be_kept_of_an_environment_has_the_token(model, caplog):
    caplog.set_level(logging.DEBUG)
    with REPLEnv() as env:
        env.reset(hf_token=TOKEN)
        env.execute("llm_query('hi')")
        snapshot = env.snapshot()
        inner = env.unwrapped
        assert isinstance(inner, REPLEnvironment)
        assert not leaks(repr(snapshot) + repr(env) + repr(vars(inner)) + repr(vars(inner._llm)) + caplog.text)
        for each in (snapshot, inner, inner._llm):
            with pytest.raises((TypeError, UsageError, pickle.PicklingError)):
                pickle.dumps(each)
        with env.fork() as twin:
            twin.execute("print(llm_query('hi'))")
            assert not leaks(repr(vars(twin.unwrapped)))


def test_the_token_of_one_episode_is_not_used_in_the_next(model):
    with REPLEnv() as env:
        env.reset(hf_token=TOKEN)
        env.execute("llm_query('hi')")
        before = len(model.requests)
        env.reset()
        assert "there is no language model here" in env.execute("llm_query('hi')").observation.result.exception
        assert len(model.requests) == before


def test_no_log_of_a_client_has_the_token(server, caplog):
    caplog.set_level(logging.DEBUG)
    with REPLEnv(server.url) as env:
        env.reset(hf_token=TOKEN)
    assert not leaks(caplog.text)


def test_data_that_is_no_object_is_not_repeated(server):
    with websocket(server.ws_url) as plain:
        plain.send(json.dumps({"type": "reset", "data": [{"hf_token": TOKEN}]}))
        assert not leaks(plain.recv(30))


# The grader.


def test_the_expected_answer_is_nowhere_to_be_found(server):
    with REPLEnv(server.url) as env:
        seen = [env.reset(context="c", task_prompt="t", expected_answer=EXPECTED)]
        assert env.execute(INSIDE).observation.result.success
        step = env.execute(f"print(holds({EXPECTED[::-1]!r}), {EXPECTED[::-1]!r}[::-1] in told())")
        assert step.observation.result.stdout == "0 False\n"
        seen += [env.execute("1 / 0"), env.state(), env.pending]
        last = env.execute("FINAL('something else')")
        assert (last.done, last.reward) == (True, 0.0)
        seen += [last, env.state(), server.errors(), fetched(f"{server.url}/metrics")]
    assert not leaks("\n".join(map(repr, seen)), EXPECTED)


SUBMIT = (
    "submit = next(c.cell_contents for c in FINAL.__closure__ if c.cell_contents.__name__ == '_submit_final_answer')\n"
)


@pytest.mark.parametrize("given", ["5", "None", "{'a': 1}", "['x']", "True", "1.5", "'a', 'b'", "", "10 ** 5000"])
def test_what_is_no_text_is_no_answer(env, given):
    step = env.execute(f"{SUBMIT}submit({given})")
    assert (step.done, step.observation.result.success) == (False, False)
    assert env.execute("FINAL(1)").done


def test_many_large_answers_do_not_fill_the_memory_of_the_host(env):
    tracemalloc.start()
    try:
        step = env.execute(f"{SUBMIT}text = 'x' * 4_000_000\nfor _ in range(100):\n    submit(text)")
        assert step.done
        assert tracemalloc.get_traced_memory()[1] < 120_000_000
    finally:
        tracemalloc.stop()


def test_a_final_answer_has_an_end(env):
    step = env.execute("FINAL('x' * 500_000_000)")
    assert not step.done
    assert not step.observation.result.success
    assert env.execute("FINAL('x')").done


@pytest.mark.parametrize(
    "hostile",
    [
        "class A(dict):\n    def get(self, *_): 1 / 0\nanswer = A(content=1, ready=True)",
        "class A(dict):\n    def __getattribute__(self, name): raise SystemExit\nanswer = A(content=1, ready=True)",
        "class A(dict):\n    def __repr__(self): return 'ready' * 10 ** 6\nanswer = A()",
        "class A(dict):\n    def __repr__(self): return 5\nanswer = A()",
        "class A:\n    __class__ = dict\n    def get(self, *_): return 1\nanswer = A()",
        "class A(str):\n    def __str__(self): return self\nanswer = {'content': A('ready'), 'ready': []}",
        "answer = {'content': 'x', 'ready': 0}\nanswer['self'] = answer",
        "answer = {}\nfor _ in range(10_000): answer = {'ready': answer}\nanswer = {'content': answer, 'ready': 0}",
        "answer = {'content': 10 ** 10_000, 'ready': True}",
        "class A:\n    def __str__(self): return 'x' * 10 ** 8\nanswer = {'content': A(), 'ready': True}",
        "class A:\n    def __str__(self): return None\nanswer = {'content': A(), 'ready': True}",
        "class A:\n    def __bool__(self): raise MemoryError\nanswer = {'content': 1, 'ready': A()}",
        "import os\nclass A:\n    def __str__(self): os._exit(0)\nanswer = {'content': A(), 'ready': True}",
        "import os\nclass A:\n    def __repr__(self): os.kill(os.getpid(), 9)\nanswer = A()",
    ],
)
def test_a_hostile_answer_does_no_harm(env, hostile):
    step = env.execute(hostile)
    assert not step.done, step.info
    assert len(repr(step)) < 100_000
    assert env.execute("answer = {'content': 'good', 'ready': True}").info["final_answer"] == "good"


ENDLESS = """
class A:
    def __{}__(self):
        while True:
            try:
                while True: pass
            except BaseException: pass
"""


def test_code_that_does_not_end_in_what_we_ask_of_it_is_stopped():
    with REPLEnv(limits=Limits(wall=0.3)) as env:
        env.reset()
        for name in ("str", "repr"):
            step = env.execute(ENDLESS.format(name) + "answer = {'content': A(), 'ready': True}")
            assert not step.done
            assert "context" in step.observation.available_variables
        assert env.execute("FINAL(1)").done


@pytest.mark.parametrize("body", ["import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)", "while True: pass"])
@pytest.mark.parametrize("place", ["x = A()", "answer = A()"])
def test_what_a_repr_does_afterwards_does_not_take_an_answer_away(body, place):
    with REPLEnv(limits=Limits(wall=0.5)) as env:
        env.reset(expected_answer="42")
        step = env.execute(f"class A:\n    def __repr__(self):\n        {body}\n{place}\nprint('said')\nFINAL(42)")
        assert (step.done, step.reward, step.info["final_answer"]) == (True, 1.0, "42")
        assert step.observation.result.success
        assert step.observation.result.stdout.startswith("said\n")


def test_an_answer_that_a_repr_gives_after_the_run_is_none(env):
    step = env.execute("class A:\n    def __repr__(self): return FINAL(3)\nx = A()")
    assert not step.done
    assert env.execute("FINAL(4)").info["final_answer"] == "4"


@pytest.mark.parametrize(
    "variables",
    [
        "for n in range(100_000): globals()[f'v{n}'] = n",
        "for n in range(2_000): globals()[f'v{n}'] = 'x' * 10_000",
        "globals()['x' * 1_000_000] = 1",
        "globals()['\\ud800'] = 1",
        "globals()[5] = 1",
        "x = {n: n for n in range(1_000_000)}",
        "x = []\nfor _ in range(100_000): x = [x]",
        "x = 10 ** 100_000",
        "x = b'x' * 100_000_000",
        "__name__ = None\nglobals()['__builtins__'] = {}",
    ],
)
def test_variables_of_any_number_and_size_make_a_bounded_observation(env, variables):
    step = env.execute(variables)
    assert len(step.observation.available_variables) <= 1000
    assert len(repr(step)) < 4_000_000
    json.dumps(step.observation.available_variables).encode()
    assert env.submit_final_answer("x").done


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nprint('FINAL(3)', file=sys.stderr)",
        "import os\nos.write(2, b'FINAL(3)\\n')",
        "import os\nchild = os.fork()\nif not child:\n    FINAL(3)\n    os._exit(0)\nos.waitpid(child, 0)",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(\"FINAL\" + \"(3)\")'])",
        "print(context)",
        "print(llm_query('FINAL(3)'))",
        "print(*llm_query_batched(['FINAL(3)', 'x\\nFINAL(4)']), sep='\\n')",
        "print(rlm_query('x\\nFINAL(3)'))",
        "def f():\n    '''Not yet\n    FINAL(x)'''\nprint(context)",
    ],
)
def test_words_of_others_end_no_episode(code):
    def echo(prompt):
        return f"so\n{prompt}\n{prompt.splitlines()[-1]}"

    with REPLEnv(llm_query_fn=echo) as env:
        env.reset(context="Note:\nFINAL(3)\nFINAL(x)\n", task_prompt="FINAL(3)", rlm_max_depth=1)
        step = env.execute(code)
        assert (step.done, step.observation.result.success) == (False, True), step.observation.result


# Language models.


@pytest.mark.parametrize("way", [Hang(200, ""), Drip(200, "x" * 1_000_000, pause=0.05)], ids=["hangs", "drips"])
def test_a_model_that_does_not_answer_holds_nobody_up(clean, way):
    with scripted_model(lambda messages, name: way) as model:
        clean.setenv("HF_INFERENCE_URL", model.url)
        with REPLEnv(limits=Limits(tool_wall=0.3)) as env:
            env.reset(hf_token=TOKEN)
            for call in ("llm_query('a')", "llm_query_batched(['a', 'b'])", "rlm_query('a')"):
                step = env.execute(call)
                assert "did not answer within 0.3 s" in step.observation.result.exception
            assert env.execute("1 + 1").observation.result.stdout == "2\n"
        assert model.abandoned.wait(30), "its connections are closed with the environment"


def test_a_model_that_dies_is_an_error(clean):
    with scripted_model(lambda messages, name: Cut(200, "x" * 100, after_bytes=10)) as model:
        clean.setenv("HF_INFERENCE_URL", model.url)
        with REPLEnv() as env:
            env.reset(hf_token=TOKEN)
            step = env.execute("llm_query('a')")
            assert "ended the call without an answer" in step.observation.result.exception
            model_gone = env.execute("print(llm_query_batched(['a', 'b']))").observation.result.stdout
            assert model_gone.count("ended the call without an answer") == 2


@pytest.mark.parametrize(
    "reply",
    [
        "```repl\n" * 100_000,
        "FINAL(" * 100_000,
        "\ud800```repl\n1\n```",
        "```repl\nimport os; os._exit(1)\n```",
        "```repl\nprint('x' * 10 ** 9)\n```",
        "```repl\n" + "1\n" * 50_000 + "```",
        "```repl\n\0\n```",
        "",
    ],
    ids=["open", "brackets", "surrogate", "exit", "flood", "long", "nul", "empty"],
)
def test_no_reply_of_a_model_breaks_a_driver(env, reply):
    run = run_rlm(lambda messages: reply, "c", "t", env=env, max_iterations=2)
    assert run.answer is None
    assert run.ended in ("truncated", "out_of_turns")


def test_a_child_cannot_do_more_than_its_parent_and_ends_with_it(clean):
    """Code of a child runs in a sandbox too, and knows nothing of the parent's."""
    inside = threading.Event()

    def chat(messages):
        if messages[0]["role"] != "system":
            return "plain"
        inside.set()
        return (
            "```repl\nimport os\nseen = {**dict(os.environ), 'files': os.listdir('.'), 'who': os.getpid()}\n"
            "FINAL('secret' in repr(seen) + repr(globals()))\n```"
        )

    with REPLEnv(llm_chat_fn=chat) as env:
        env.reset(context="secret of the parent")
        step = env.execute("open('secret', 'w').write('x')\nsecret = 1\nprint(rlm_query('q'))")
        assert step.observation.result.stdout == "False\n"
    assert inside.is_set()


def test_a_batch_has_an_end(env):
    for call in ("llm_query_batched", "rlm_query_batched"):
        step = env.execute(f"{call}(['x'] * 1_000_000)")
        assert "are more than the 1000 that one call takes" in step.observation.result.exception

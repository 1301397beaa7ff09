"""Environments whose actions are code, played by somebody who wants the reward and not the task."""
# ruff: noqa: E501  (an attack is one line, however long)

import gc
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from envweave.client import EnvClient
from envweave.codeact import CodeAction, create_codeact_env, create_mcp_environment
from envweave.core.jsonable import to_json
from envweave.envs.coding import CodeAction as Code
from envweave.envs.coding import CodingEnvironment
from envweave.errors import BusyError, ClosedError, EnvWeaveError, UnsupportedError, UsageError
from envweave.rewards import CodeQualityTransform, CompositeTransform, MathProblemTransform
from envweave.testing import running_server

SECRET = "secret-answer-8274619"


class Attempts(MathProblemTransform):
    """Scores every answer and ends no episode, so that an attack can go on."""

    name = "math_problem"

    def score(self, observation):
        return replace(super().score(observation), done=False)


def secret_transform():
    return CompositeTransform([Attempts(SECRET), CodeQualityTransform()])


@pytest.fixture
def env(sandbox):
    """An environment whose right answer is a secret."""
    with create_codeact_env(transform=secret_transform()) as made:
        made.reset(seed=1)
        yield made


@pytest.fixture
def armed(env, arm):
    arm(env._python.session)
    return env


def run(env, code):
    return env.step(CodeAction(code=code)).execution_result


def value(env, code):
    result = run(env, code)
    assert result.success, result.exception
    return result.return_value


def offspring(of=None):
    """The living processes that descend from a process of the host: this one, if it is not said which."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state not in "ZX":
                parents[int(folder.name)] = int(parent)
    found, todo = set(), [of or os.getpid()]
    while todo:
        children = [pid for pid, parent in parents.items() if parent == todo[-1]]
        todo.pop()
        found.update(children)
        todo += children
    return found


# What is not for the code to see.


def test_the_expected_answer_is_nowhere_in_the_process_of_the_code(armed):
    assert value(armed, f"holds({SECRET[::-1]!r})") == 0
    run(armed, f"known = {SECRET!r}")
    assert value(armed, f"holds({SECRET[::-1]!r})") > 0, "the search finds what is there"


def test_transforms_rewards_and_environments_are_not_among_the_objects_of_the_code(armed):
    names = value(armed, "sorted({type(each).__module__ for each in gc.get_objects()} | set(sys.modules))")
    assert [name for name in names if name.startswith(("envweave.rewards", "envweave.envs", "envweave.core"))] == []


def test_a_stack_walked_to_its_end_shows_the_worker_and_nothing_of_the_host(armed):
    found = value(
        armed,
        "here, files = sys._getframe(), []\nwhile here:\n files.append(here.f_code.co_filename)\n here = here.f_back\nfiles",
    )
    assert all(not name.startswith("/") and "rewards" not in name for name in found)


def test_the_closure_of_a_tool_holds_nothing_of_the_hosts(sandbox, arm):
    def search(word: str) -> str:
        return word + SECRET[:0]

    with create_codeact_env(tools=[search]) as env:
        env.reset()
        arm(env._python.session)
        told = value(
            env,
            "str([search.__closure__, search.__globals__.keys(), search.__defaults__, vars(search), search.__code__.co_consts, vars(worker().mail)])",
        )
        assert SECRET not in told
        assert "test_code_environments" not in told


@pytest.mark.parametrize(
    "claim",
    [
        {"reward": 1000.0, "metadata": {"rewards": {"math_problem": 1000.0}}},
        {"value": {"data": 1, "reward": 5}, "reward": 5, "done": True},
        {"value": {"data": {"reward": 1000.0, "execution_result": {"return_value": SECRET[:6]}}}},
        {"value": "text", "exit_code": "0", "error": 7},
        {"value": {"data": [[]] * 10}, "limit": {"name": "none"}, "state": "ended"},
    ],
)
def test_a_forged_answer_is_an_answer_and_no_reward(armed, claim):
    obs = armed.step(CodeAction(code=f"forge(**json.loads({json.dumps(claim)!r}))"))
    assert obs.reward in (0.0, 0.1, None), "a run may claim that it went well, which is worth a tenth"
    assert obs.metadata["rewards"]["math_problem"] == 0.0
    assert not obs.done
    assert armed.step(CodeAction(code="1")).reward in (0.0, 0.1)


def test_code_that_writes_a_reward_gets_none(env):
    obs = env.step(
        CodeAction(code="reward = 1000\nobservation = {'reward': 1000}\n{'reward': 1000, 'math_problem': 1000}")
    )
    assert obs.metadata["rewards"]["math_problem"] == 0.0


def test_variables_and_files_of_one_environment_are_not_to_be_found_in_another(env):
    run(env, f"mine = {SECRET!r}\nopen('mine', 'w').write(mine)\nopen('/tmp/mine', 'w').write(mine)")
    with create_codeact_env() as other:
        other.reset()
        found = value(
            other,
            "import os\n[os.path.join(folder, name) for top in ('/home', '/tmp', '/dev/shm') for folder, _, names in os.walk(top) for name in names if name == 'mine']",
        )
        assert found == []
        assert run(other, "mine").exception.type == "NameError"
        assert (
            value(
                other, "[each for each in os.listdir('/proc') if each.isdigit() and int(each) not in (1, os.getpid())]"
            )
            == []
        )


def test_a_fork_does_not_see_the_files_or_kill_the_processes_of_its_original(env):
    run(env, "import os, signal\nkept = 1")
    with env.fork() as twin:
        run(twin, "open('mine', 'w').write('x')")
        assert value(env, "os.listdir()") == []
        run(
            twin,
            "for each in os.listdir('/proc'):\n if each.isdigit() and int(each) != os.getpid():\n  try: os.kill(int(each), signal.SIGKILL)\n  except OSError: pass",
        )
    env.step(CodeAction(code="0"))
    assert run(env, "1").return_value == 1


def test_the_environment_variables_of_the_host_are_not_those_of_the_code(env, canary, monkeypatch):
    monkeypatch.setenv("ENVWEAVE_TOKEN", SECRET)
    env.reset()
    assert SECRET not in value(env, "import os\nstr(os.environ)")
    assert canary not in value(env, "open('/proc/self/environ').read()")


# Results that are meant to hurt.


HOSTILE = [
    "class A:\n def __repr__(self): raise SystemExit\nA()",
    "class A:\n def __repr__(self): raise KeyboardInterrupt\nA()",
    "class A:\n def __repr__(self): return 5\nA()",
    "class A:\n def __repr__(self): return repr(self)\nA()",
    "class A:\n def __repr__(self): print('flood' * 100_000); return 'x' * 10_000_000\nA()",
    "class A:\n def __repr__(self):\n  import os\n  os._exit(0)\nA()",
    "class A:\n __class__ = int\n def __repr__(self): return '42'\nA()",
    "class A:\n @property\n def __class__(self): raise ValueError\n def __repr__(self): return 'x'\nA()",
    "class M(type):\n @property\n def __name__(cls): raise SystemExit\n __qualname__ = __name__\n def __instancecheck__(*_): raise SystemExit\nclass A(metaclass=M): pass\nA()",
    "def f(): pass\nclass E:\n def __eq__(self, other): raise SystemExit\nf.__module__ = E()\nf",
    "class N(str):\n def startswith(self, *_): raise SystemExit\n __hash__ = str.__hash__\nglobals()[N('n')] = 1\n1",
    "class S(str):\n def __len__(self): return -5\n __iter__ = __getitem__ = None\nS('x')",
    "class S(str):\n def __len__(self): return -5\nclass A:\n def __repr__(self): return S('y' * 1_000_000)\n[A()]",
    "class I(int):\n def __repr__(self): raise MemoryError\nI(3)",
    "class D(dict):\n def items(self): raise SystemExit\n keys = __iter__ = items\nD(a=1)",
    "class L(list):\n def __iter__(self):\n  while True: yield 1\nL()",
    "a = []\na.append(a)\na",
    "a = {}\na['a'] = a\na",
    "a = []\nfor _ in range(100_000): a = [a]\na",
    "a = [0]\nfor _ in range(60): a = [a, a]\na",
    "[[0] * 20_000] * 20_000",
    "{(i,): [i] * 1000 for i in range(5000)}",
    "'\\ud800' * 1000",
    "'\\0' * 100_000",
    "{'\\ud800': '\\udfff'}",
    "float('nan')",
    "[float('inf')] * 3",
    "10 ** 100_000",
    "-10 ** 4299",
    "b'\\xff' * 1_000_000",
    "x = type('x' * 100_000, (), {})()\nx",
    "raise type('E' * 100_000, (Exception,), {})('m' * 1_000_000)",
    "class E(Exception):\n def __str__(self): raise SystemExit\n __repr__ = __str__\nraise E",
    "class E(BaseException): pass\nraise E",
    "raise ExceptionGroup('g' * 1000, [ValueError(i) for i in range(10_000)])",
    "def f(n): raise ValueError from (f(n - 1) if n else None)\nf(500)",
    "exit(10 ** 30)",
    "exit('x' * 1_000_000)",
    "def f(): return f()\nf()",
    "import sys\nsys.setrecursionlimit(10 ** 6)\nclass A:\n def __repr__(self): return repr(A())\nA()",
    "import sys\nsys.set_int_max_str_digits(640)\n10 ** 1000",
    "while True: print('flood' * 1000)",
    "import sys\nwhile True: print('flood' * 1000, file=sys.stderr)",
    "import os\nwhile True: os.write(100, b'garbage')",
    "import os\nos.close(100)",
    "import os\nfor n in range(200):\n try: os.close(n)\n except OSError: pass",
    "import os\nwhile True:\n if not os.fork(): break",
    "import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()",
    "x = bytearray(10 ** 12)",
    "x = []\nwhile True: x.append(bytearray(1 << 24))",
    "import builtins\nbuiltins.repr = builtins.str = builtins.len = builtins.isinstance = lambda *_: 1 / 0\n[object()]",
    "globals().clear()\n__builtins__ = None",
]


@pytest.fixture(scope="module")
def hardened(sandbox):
    """Short limits, so that an attack is over soon."""
    with create_codeact_env(transform=secret_transform(), limits={"wall": 2, "memory_bytes": 256 << 20}) as made:
        made.reset()
        yield made


@pytest.mark.parametrize("code", HOSTILE)
def test_a_hostile_result_is_an_observation_of_bounded_size_and_the_episode_goes_on(hardened, code):
    obs = hardened.step(CodeAction(code=code))
    assert len(json.dumps(to_json(obs))) < 2_000_000
    assert obs.metadata["rewards"].get("math_problem") == 0.0
    again = hardened.step(CodeAction(code="import math\nmath.floor(2.5)"))
    if again.execution_result.return_value != 2:  # it has wrecked its own interpreter: a kill gives it a new one
        hardened.step(CodeAction(code="import os\nos.kill(os.getpid(), 9)"))
        hardened.reset()
        again = hardened.step(CodeAction(code="math.floor(2.5)"))
    assert again.execution_result.return_value == 2
    assert again.reward in (0.0, 0.1)


@pytest.mark.parametrize("code", HOSTILE[:14])
def test_a_hostile_variable_does_not_keep_the_state_from_being_told(hardened, code):
    hardened.reset()
    body, _, last = code.rpartition("\n")
    run(hardened, f"{body}\nhostile = {last}")
    run(hardened, "kept = 1")
    assert hardened.state.variables["kept"] == "int"


def test_a_hostile_transform_target_cannot_stop_the_host(hardened):
    text = run(hardened, "'(' * 60_000").return_value
    assert len(text) == 60_000
    assert hardened.step(CodeAction(code="(" * 100_000)).reward in (-0.2, None)
    assert hardened.step(CodeAction(code="-" * 100_000 + "1")).reward in (-0.2, 0.0, None)


# Tools.


def test_a_tool_that_is_called_ten_thousand_times_is_refused_beyond_the_limit():
    calls = []

    def count(number: int) -> int:
        calls.append(number)
        return number

    with create_codeact_env(tools=[count]) as env:
        env.reset()
        result = run(
            env,
            "refused = 0\nfor n in range(10_000):\n try: count(n)\n except RuntimeError: refused += 1\nrefused",
        )
        assert result.return_value == 9000
        assert result.limit.name == "tool_calls"
        assert len(calls) == 1000
        assert run(env, "count(1)").return_value == 1


def test_huge_arguments_and_results_of_a_tool_are_refused_in_words():
    def echo(text: str, repeat: int = 1) -> str:
        return text * repeat

    with create_codeact_env(tools=[echo]) as env:
        env.reset()
        assert "the most" in run(env, "echo('x' * 50_000_000)").exception.message
        assert run(env, "len(echo('x' * 1_000_000))").return_value == 1_000_000
        assert run(env, "len(echo('x' * 1_000_000, 8))").success
        for bad in ("object()", "float('nan')", "{1, 2}", "'\\ud800'", "[[[]]]", "10 ** 5000", "a", "b'x'"):
            result = run(env, f"a = []\na.append(a)\necho({bad})")
            assert not result.success or bad == "'\\ud800'"
        assert run(env, "echo('alive')").return_value == "alive"


def test_a_tool_that_hangs_takes_no_more_threads_of_the_host_with_every_step():
    released = threading.Event()

    def hang() -> None:
        released.wait(60)

    with create_codeact_env(tools=[hang], limits={"tool_wall": 0.05}) as env:
        env.reset()
        before = threading.active_count()
        for _ in range(4):
            run(
                env,
                "import threading\ndef call():\n try: hang()\n except Exception: pass\nthreads = [threading.Thread(target=call) for _ in range(40)]\nfor each in threads: each.start()\nfor each in threads: each.join()",
            )
        assert threading.active_count() - before <= 64
        assert "at once" in run(env, "[hang() for _ in range(64)]").exception.message
        released.set()


def test_a_tool_is_called_from_many_threads_at_once():
    together = threading.Barrier(16)

    def meet(number: int) -> int:
        together.wait(20)
        return number * 2

    with create_codeact_env(tools=[meet]) as env:
        env.reset()
        code = "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(16) as pool: found = list(pool.map(meet, range(16)))\nfound"
        assert run(env, code).return_value == [2 * number for number in range(16)]


def test_a_made_up_call_reaches_no_function_that_is_not_a_tool(sandbox, arm):
    with create_codeact_env(tools={"length": len}) as env:
        env.reset()
        arm(env._python.session)
        for name in ("__import__", "eval", "close", "_call", "", "length.__class__"):
            result = run(env, f"worker().mail.call({name!r}, ('os',), {{}})")
            assert result.exception.type == "NameError"


def test_a_thread_that_is_left_behind_calls_no_tool_after_its_run():
    calls = []

    def note(number: int) -> None:
        calls.append(number)

    with create_codeact_env(tools=[note]) as env:
        env.reset()
        run(
            env,
            "import threading, time\ndef go():\n while True:\n  try: note(1)\n  except Exception: pass\n  time.sleep(0.001)\nthreading.Thread(target=go, daemon=True).start()",
        )
        assert run(env, "time.sleep(0.1)").success
        assert calls  # it does call, while a run lasts
        before = len(calls)
        for _ in range(20):
            env.state  # noqa: B018  (a question, during which the thread moves)
        assert len(calls) == before
        assert run(env, "1").return_value == 1


def test_a_tool_that_raises_an_exit_or_an_interrupt_ends_nothing_here():
    def leave() -> None:
        raise SystemExit(3)

    def stop() -> None:
        raise KeyboardInterrupt

    with create_codeact_env(tools=[leave, stop]) as env:
        env.reset()
        assert "SystemExit" in run(env, "leave()").exception.message
        assert "KeyboardInterrupt" in run(env, "stop()").exception.message
        assert run(env, "1").return_value == 1


def test_file_tools_that_were_tampered_with_reach_no_further_than_before(sandbox):
    with create_mcp_environment() as env:
        env.reset()
        run(env, "import os\nos.path.realpath = lambda path: '/home/agent/work/x'\nos.environ['HOME'] = '/'")
        for path in ("/etc/shadow", "/root/.bashrc", __file__):
            assert run(env, f"open({path!r}).read()").exception.type in ("FileNotFoundError", "PermissionError")
        with pytest.raises(EnvWeaveError):
            env.tools.call("file_read", {"path": "../../../etc/shadow"})


# Lives and deaths.


@pytest.mark.parametrize(
    "death",
    [
        "import os; os._exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "import os; os.abort()",
        "import ctypes; ctypes.string_at(0)",
        "import os, signal; os.kill(-1, signal.SIGKILL)",
        "import sys; sys.setrecursionlimit(10 ** 9)\nimport _ctypes\ndef f(): return [f() for _ in 'x']\nf()",
        "import os; os.write(100, b'\\xff' * 100)\nimport time; time.sleep(60)",
    ],
)
def test_code_that_kills_its_interpreter_keeps_its_episode_and_its_files(hardened, death):
    hardened.reset(episode_id="mine")
    run(hardened, "open('kept', 'w').write('here')")
    assert not run(hardened, death).success
    assert run(hardened, "open('kept').read(), math.floor(1.5)").return_value == ["here", 1]
    assert hardened.state.step_count == 3
    assert hardened.state.episode_id == "mine"


def test_a_child_of_the_code_speaks_for_nobody(env):
    result = run(
        env, "import os\npid = os.fork()\nif not pid: print('child')\nresult = 'parent' if pid else 'child'\nresult"
    )
    assert result.return_value == "parent"
    assert run(env, "result").return_value == "parent"


@pytest.fixture
def busy(sandbox):
    """An environment in the middle of a step that does not end by itself, and what becomes of that step."""
    started = threading.Event()
    made = create_codeact_env(tools={"started": started.set})
    made.reset()
    with ThreadPoolExecutor(1) as pool:
        step = pool.submit(made.step, CodeAction(code="kept = 1\nstarted()\nwhile True: pass"))
        assert started.wait(30)
        yield made, step
        made.close()


def test_a_fork_a_snapshot_or_a_second_step_is_refused_while_code_runs(busy):
    env, _ = busy
    for call in (env.fork, env.snapshot, lambda: env.step(CodeAction(code="1")), lambda: env.state):
        with pytest.raises(BusyError):
            call()


def test_a_close_from_another_thread_ends_the_step_with_an_error(busy):
    env, step = busy
    env.close()
    assert isinstance(step.exception(30), ClosedError)


def test_a_reset_in_the_middle_of_a_step_begins_an_episode_that_knows_nothing_of_it(busy):
    env, step = busy
    env.reset()
    assert isinstance(step.exception(30), ClosedError)
    assert env.state.step_count == 0
    assert run(env, "kept").exception.type == "NameError"


def test_a_restore_in_the_middle_of_a_step_comes_back_to_its_snapshot(sandbox):
    started = threading.Event()
    with create_codeact_env(tools={"started": started.set}) as env, ThreadPoolExecutor(1) as pool:
        env.reset()
        run(env, "x = 1")
        kept = env.snapshot()
        step = pool.submit(env.step, CodeAction(code="x = 2\nstarted()\nwhile True: pass"))
        assert started.wait(30)
        env.restore(kept)
        assert isinstance(step.exception(30), ClosedError)
        assert env.state.step_count == 1
        assert run(env, "x").return_value == 1


def test_what_is_dropped_without_close_leaves_no_process(eventually):
    gc.collect()
    before = offspring()
    limits = {"wall": 17}  # walls that nobody else holds
    envs = [create_codeact_env(limits=limits) for _ in range(2)]
    envs.append(CodingEnvironment(limits=limits))
    for env in envs:
        env.reset()
    envs += [env.fork() for env in envs]
    kept = [env.snapshot() for env in envs]
    assert len(offspring() - before) >= 9
    del env, envs, kept
    gc.collect()
    assert eventually(lambda: not offspring() - before)


def test_what_is_closed_leaves_no_process_and_no_descriptor(eventually):
    with create_codeact_env(limits={"wall": 18}) as env:  # the first loads what is loaded once
        env.reset()
    before, open_before = offspring(), set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with create_codeact_env(limits={"wall": 18}, tools={"length": len}) as env:
            env.reset()
            env.reset()
            run(env, "import os; os._exit(1)")
            twin = env.fork()
            kept = twin.snapshot()
            env.restore(kept)
            twin.close()
            del kept
    assert eventually(lambda: not offspring() - before)
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= len(open_before))


@pytest.mark.parametrize("end", ["", "os._exit(0)", "os.kill(os.getpid(), 9)", "raise SystemExit(0)"])
def test_a_host_that_ends_without_close_leaves_no_process_and_says_nothing(end, eventually):
    program = f"""
import os, sys
from envweave.codeact import CodeAction, create_codeact_env
env = create_codeact_env()
env.reset()
twin, kept = env.fork(), env.snapshot()
env.step(CodeAction(code="import subprocess; subprocess.Popen(['sleep', '1000'])"))
print(os.getpid(), flush=True)
sys.stdin.read()
{end}
"""
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as host:
        pid = int(host.stdout.readline())
        children = offspring(pid)
        assert len(children) >= 4
        _, said = host.communicate(timeout=60)
    assert said == ""
    assert eventually(lambda: not any(Path(f"/proc/{each}").exists() and alive(each) for each in children))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_forks_beyond_the_limit_are_refused_and_a_closed_one_makes_room(sandbox):
    with create_codeact_env(limits={"forks": 2}) as env:
        env.reset()
        twins = [env.fork(), env.fork()]
        with pytest.raises(UnsupportedError, match="cannot be forked"):
            env.fork()
        with pytest.raises(UnsupportedError):
            twins[0].snapshot()
        assert run(env, "1").return_value == 1
        twins.pop().close()
        twins.append(env.fork())
        assert run(twins[1], "1").return_value == 1
        for twin in twins:
            twin.close()


def test_a_refused_fork_leaves_no_process(sandbox, eventually):
    with create_codeact_env(limits={"forks": 1}) as env:
        env.reset()
        with env.fork():
            before = offspring()
            for _ in range(5):
                with pytest.raises(UnsupportedError):
                    env.fork()
            assert eventually(lambda: not offspring() - before)


@pytest.mark.parametrize(
    "obstacle", ["import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()", "import subprocess\nchild = subprocess.Popen(['sleep', '100'])", "import os\nends = os.pipe()"]
)  # fmt: skip
def test_what_cannot_be_in_two_places_is_refused_by_name_and_the_episode_goes_on(env, obstacle):
    run(env, obstacle)
    with pytest.raises(UnsupportedError) as caught:
        env.fork()
    assert caught.value.hint
    assert run(env, "1").return_value == 1


def test_code_that_sabotages_forks_harms_only_itself(env):
    run(env, "import os\nos.register_at_fork(before=lambda: os._exit(1))")
    with create_codeact_env() as other:
        other.reset()
        with pytest.raises(EnvWeaveError):
            env.fork()
        env.reset()
        assert run(env, "1").return_value == 1
        assert run(other, "1").return_value == 1


def test_a_fork_of_a_fork_of_a_fork_lives_when_those_before_it_are_gone(env):
    line = [env]
    for depth in range(6):
        run(line[-1], f"depth = {depth}")
        line.append(line[-1].fork())
    for each in line[:-1]:
        each.close()
    assert run(line[-1], "depth").return_value == 5
    line[-1].close()


def test_many_environments_at_once_keep_apart(sandbox):
    def play(number):
        with CodingEnvironment() as env:
            env.reset(seed=number)
            for _ in range(5):
                env.step(Code(code=f"mine = globals().get('mine', 0) + {number}"))
            with env.fork() as twin:
                return env.step(Code(code="mine")).stdout, twin.step(Code(code="mine")).stdout

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(play, range(32)))
    assert found == [(f"{5 * number}\n",) * 2 for number in range(32)]


def test_a_seed_gives_the_same_episode_in_another_process():
    program = """
import json
from envweave.envs.coding import CodeAction, CodingEnvironment
with CodingEnvironment() as env:
    env.reset(seed=11)
    print(env.step(CodeAction(code="[random.random(), hash('x'), list({'a', 'b', 'c'}), random.sample(range(99), 5)]")).stdout)
"""
    seen = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100).stdout
        for _ in range(2)
    }
    assert len(seen) == 1


def test_what_is_made_before_a_fork_of_the_host_is_refused_in_the_child(env):
    from support.child import in_child

    def use():
        try:
            env.step(CodeAction(code="1"))
        except UsageError as error:
            return error.message

    assert "forked process" in in_child(use)
    assert run(env, "1").return_value == 1


def test_a_host_that_has_forked_makes_environments_of_its_own_there(env):
    from support.child import in_child

    def use():
        with create_codeact_env() as own:
            own.reset()
            return run(own, "6 * 7").return_value

    assert in_child(use) == 42
    assert run(env, "1").return_value == 1


@pytest.mark.parametrize(
    ("id", "arguments"),
    [
        ("repl", {"sandbox": {"backend": "local"}}),
        ("coding", {"limits": {"wall": 1e6}}),
        ("coding", {"modules": ["antigravity"]}),
        ("codeact", {"servers": {"mine": {"command": "touch", "args": ["owned"]}}}),
        ("codeact", {"files": True, "sandbox": {"isolation": "process"}}),
    ],
)
def test_a_client_does_not_choose_the_walls_even_where_it_may_choose_arguments(id, arguments):
    with running_server(id, "--allow-arguments") as server:
        with pytest.raises(UsageError, match="is for the server's operator to choose"):
            EnvClient(server.url, arguments=arguments).connect()
        with EnvClient(server.url, arguments={"transform": None}) as env:  # others it may
            env.reset()

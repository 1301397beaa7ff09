"""The coding environment on a real server: its own client, its example, and a client of OpenEnv's."""

import json
import os
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import envweave as ew
from envweave.envs.codeact import CodeAction as CodeActAction
from envweave.envs.coding import CodeAction, CodeObservation, CodeState, CodingEnv
from envweave.errors import ClosedError, UnsupportedError
from envweave.testing import running_server

SCRIPT = Path(__file__).parent / "openenv_client" / "coding.py"


@pytest.fixture(scope="module")
def server():
    with running_server("coding", "--allow-branching") as served:
        yield served


@pytest.fixture
def env(server):
    with CodingEnv(base_url=server.url) as client:
        client.reset(seed=1)
        yield client


def run(env, code):
    return env.step(CodeAction(code=code))


def test_its_client_sees_what_code_did_in_its_own_types(env):
    result = run(env, "x = 20\nprint('hi')\nx + 1")
    assert result.observation == CodeObservation(stdout="hi\n21\n", reward=0.1, metadata=result.observation.metadata)
    assert result.reward == 0.1
    assert result.info["rewards"]["code_quality.concise"] == 0.1
    failed = run(env, "1 / 0").observation
    assert failed.exit_code == 1
    assert failed.stderr.endswith("ZeroDivisionError: division by zero\n")
    state = env.state()
    assert isinstance(state, CodeState)
    assert (state.step_count, state.last_exit_code) == (2, 1)


def test_an_episode_lasts_and_a_reset_begins_another(env):
    run(env, "x = 1\nopen('note', 'w').write('here')")
    assert run(env, "x, open('note').read()").observation.stdout == "[1, 'here']\n"
    env.reset(episode_id="next")
    assert "NameError" in run(env, "x").observation.stderr
    assert env.state().episode_id == "next"


def test_a_seed_gives_the_same_episode_as_in_this_process(env):
    code = "[random.random(), list({'a', 'b', 'c'})]"
    with ew.make("coding") as here:
        here.reset(seed=5)
        env.reset(seed=5)
        assert run(env, code).observation.stdout == here.step(CodeAction(code=code)).observation.stdout


def test_a_fork_over_the_wire_has_the_live_variables_and_goes_its_own_way(env):
    run(env, "x = [1]\nopen('f', 'w').write('begun')\nopened = open('f')\nopened.read(2)")
    with env.fork() as twin:
        run(twin, "x.append(2)\nopen('f', 'w').write('twin!')")
        assert run(twin, "x, open('f').read()").observation.stdout == "[[1, 2], 'twin!']\n"
        assert run(env, "x, opened.read()").observation.stdout == "[[1], 'gun']\n"
        with twin.fork() as third:
            assert run(third, "x").observation.stdout == "[1, 2]\n"
        assert (twin.state().step_count, env.state().step_count) == (3, 2)


def test_a_fork_over_the_wire_lives_on_when_its_original_has_left(server):
    with CodingEnv(base_url=server.url) as env:
        env.reset()
        run(env, "x = 3")
        twin = env.fork()
    assert run(twin, "x").observation.stdout == "3\n"
    twin.close()


def test_a_snapshot_over_the_wire_is_come_back_to(env):
    run(env, "x = 1")
    kept = env.snapshot()
    for _ in range(2):
        run(env, "x = 2")
        env.restore(kept)
        assert run(env, "x").observation.stdout == "1\n"


def test_code_that_kills_its_interpreter_keeps_its_session_on_the_server(env):
    killed = run(env, "import os; os.kill(os.getpid(), 9)")
    assert killed.observation.exit_code == -9
    assert not killed.done
    assert run(env, "math.floor(1.5)").observation.stdout == "1\n"


@pytest.mark.parametrize(
    "code", ["'\\ud800'", "print('\\ud800')", "10 ** 5000", "print('x' * 10_000_000)", "print('\\0')"]
)
def test_output_of_every_kind_crosses_the_wire(env, code):
    assert run(env, code).observation.exit_code == 0
    assert run(env, "1").observation.stdout == "1\n"


def test_many_sessions_at_once_keep_apart(server):
    def play(number):
        with CodingEnv(base_url=server.url) as env:
            env.reset(seed=number)
            for _ in range(5):
                run(env, f"mine = globals().get('mine', 0) + {number}")
            return run(env, "mine").observation.stdout, env.state().step_count

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(play, range(32))) == [(f"{5 * number}\n", 6) for number in range(32)]


def test_it_is_played_over_plain_http_too(server):
    with httpx.Client(base_url=server.url) as http:
        http.post("/reset", json={})
        http.post("/step", json={"action": {"code": "x = 4"}})
        answer = http.post("/step", json={"action": {"code": "x"}}).json()
        assert set(answer["observation"]) >= {"stdout", "stderr", "exit_code"}
        assert answer["observation"]["stdout"] == "4\n"
        assert answer["reward"] == 0.0, "the first step was paid for"
        assert answer["done"] is False


def test_a_client_that_has_left_says_so(server):
    env = CodingEnv(base_url=server.url)
    env.reset()
    env.close()
    with pytest.raises(ClosedError):
        run(env, "1")


def test_in_a_process_of_its_own_it_plays_the_same_and_refuses_to_be_forked():
    with (
        running_server("coding", "--allow-branching", "--isolation", "process") as server,
        CodingEnv(base_url=server.url) as one,
        CodingEnv(base_url=server.url) as other,
    ):
        one.reset(seed=1)
        other.reset(seed=1)
        run(one, "x = 1")
        assert "NameError" in run(other, "x").observation.stderr
        assert run(one, "x, random.random()").observation.stdout != ""
        run(one, "import os; os.kill(os.getpid(), 9)")
        assert run(one, "math.floor(1.5)").observation.stdout == "1\n"
        with pytest.raises(UnsupportedError, match="cannot leave its process"):
            one.fork()
        assert run(one, "2").observation.stdout == "2\n"


def test_a_server_that_is_killed_leaves_no_process():
    with running_server("coding", "--allow-branching") as server, CodingEnv(base_url=server.url) as env:
        env.reset()
        run(env, "x = 1")
        children = _offspring(server.pid)
        assert children
        server.process.kill()
        server.process.wait(60)
        assert _all_gone(children)


def test_codeact_is_served_with_the_value_itself():
    with running_server("codeact", "--allow-branching") as server, ew.connect(server.url) as env:
        env.reset(seed=1)
        seen = env.step(CodeActAction(code="print('hi')\n{'a': [1, None, 10 ** 30]}")).observation.execution_result
        assert seen.stdout == "hi\n"
        assert seen.return_value == {"a": [1, None, 10**30]}
        failed = env.step({"code": "1 / 0"}).observation.execution_result
        assert failed.success is False
        assert failed.exception.type == "ZeroDivisionError"
        env.step({"code": "x = 1"})
        with env.fork() as twin:
            assert twin.step({"code": "x"}).observation.execution_result.return_value == 1
        assert env.state().variables == {"x": "int"}


def test_the_example_runs_with_a_server_of_its_own():
    said = _example()
    assert "Hello, World!" in said
    assert "[1, 2, 3]" in said
    assert "16\nexit code 0" in said
    assert "ZeroDivisionError: division by zero\nexit code 1" in said
    assert "a fork has the variables: [3, 1, 2, 10]" in said


def test_the_example_uses_a_server_that_runs(server):
    assert server.url in _example("--url", server.url)
    with running_server("coding") as plain:
        assert "hint: start it with --allow-branching" in _example("--url", plain.url)


@pytest.fixture(scope="module")
def seen(server):
    """What OpenEnv's own client saw of our server."""
    command = [sys.executable, str(SCRIPT), server.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_client_of_openenv_reads_the_fields_it_knows_and_no_others(seen):
    played = seen["sync"]
    assert {key: played["reset"][key] for key in ("stdout", "stderr", "exit_code", "done")} == {
        "stdout": "", "stderr": "", "exit_code": 0, "done": False,
    }  # fmt: skip
    steps = played["steps"]
    assert [step["stdout"] for step in steps.values()][:6] == ["Hello, World!\n", "", "5\n6\n", "", "10\n", "before\n"]
    assert [step["exit_code"] for step in steps.values()] == [0, 0, 0, 0, 0, 1, 1, 0, 7, 0, 1]
    assert "ZeroDivisionError" in steps["print('before'); 1 / 0"]["stderr"]
    assert not any(step["done"] for step in steps.values())


def test_a_client_of_openenv_gets_openenvs_rewards(seen):
    steps = seen["sync"]["steps"]
    assert next(iter(steps.values()))["reward"] == 0.1
    assert steps["x = 5"]["reward"] == 0.0, "short code is paid once in an episode"
    assert steps["import os"]["reward"] == -1.0
    assert steps["import os"]["metadata"]["safety_violation"]
    assert steps["import os"]["metadata"]["last_code"] == "import os"


def test_a_client_of_openenv_reads_the_state(seen):
    assert seen["sync"]["state"] == {"episode_id": "mine", "step_count": 11, "last_exit_code": 1}
    assert seen["sync"]["later"]["step_count"] == 1
    assert seen["sync"]["later"]["episode_id"] not in (None, "mine")
    assert "NameError" in seen["sync"]["gone"]["stderr"]


def test_clients_of_openenv_at_the_same_time_have_a_session_each(seen):
    assert seen["together"] == [str(number) for number in range(8)]


def _example(*arguments):
    command = [sys.executable, "-W", "error", "-m", "envweave.examples.local_coding_env", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _offspring(of):
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, todo = set(), [of]
    while todo:
        parent = todo.pop()
        children = [pid for pid, its in parents.items() if its == parent]
        found.update(children)
        todo += children
    return found


def _all_gone(pids):
    """Whether all of them end, within a generous time."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(handle):
            if not _ends(handle):
                return False
    return True


def _ends(handle):
    return bool(select.select([handle], [], [], 30)[0])

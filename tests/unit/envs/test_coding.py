"""Code in, output and exit code out."""

import asyncio

import pytest

import envweave as ew
from envweave.envs.coding import CodeAction, CodeObservation, CodeState, CodingEnv, CodingEnvironment
from envweave.errors import UsageError
from envweave.rewards import CodeQualityTransform, MathProblemTransform, create_math_env_transform
from envweave.testing.check import check_env


@pytest.fixture
def env():
    with CodingEnvironment() as made:
        made.reset(seed=1)
        yield made


def run(env, code):
    return env.step(CodeAction(code=code))


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("print('hi')", "hi\n"),
        ("x = 5", ""),
        ("x = 5\nprint(x); x + 1", "5\n6\n"),
        ("print('a', end='')\n1", "a\n1\n"),
        ("'é'", "'é'\n"),
        ("None", ""),
        ("{1: {2}}", "{1: {2}}\n"),
        ("[True, None, 1.5, 'a']", "[True, None, 1.5, 'a']\n"),
        ("float('nan')", "nan\n"),
        ("10 ** 5000", "1" + "0" * 5000 + "\n"),
        ("", ""),
        ("# nothing", ""),
    ],
)
def test_it_shows_what_was_printed_and_the_last_value(env, code, stdout):
    seen = run(env, code)
    assert (seen.stdout, seen.stderr, seen.exit_code, seen.done) == (stdout, "", 0, False)


def test_what_goes_to_stderr_is_shown_apart(env):
    seen = run(env, "import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (seen.stdout, seen.stderr) == ("out\n", "err\n")


def test_an_exception_has_a_traceback_of_the_codes_own_lines_and_keeps_what_was_printed(env):
    seen = run(env, "print('before')\n1 / 0")
    assert seen.stdout == "before\n"
    assert seen.stderr.startswith('Traceback (most recent call last):\n  File "<step 1>", line 2, in <module>\n')
    assert seen.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "envweave" not in seen.stderr
    assert seen.exit_code == 1


@pytest.mark.parametrize(("code", "exit_code"), [("exit(3)", 3), ("exit(0)", 0), ("exit('no')", 1), ("def", 1)])
def test_the_exit_code_is_a_shells(env, code, exit_code):
    assert run(env, code).exit_code == exit_code
    assert env.state.last_exit_code == exit_code


def test_variables_functions_and_imports_last_until_the_next_reset(env):
    run(env, "import textwrap\nx = 1\ndef f(): return x + 1")
    assert run(env, "f(), textwrap.__name__").stdout.endswith("'textwrap']\n")
    env.reset()
    assert "NameError" in run(env, "f()").stderr


def test_code_that_takes_too_long_is_stopped_and_its_variables_stay():
    with CodingEnvironment(limits={"wall": 0.2}) as env:
        env.reset()
        seen = run(env, "x = 1\nprint('on')\nwhile True: pass")
        assert (seen.stdout, seen.exit_code) == ("on\n", 124)
        assert "interrupted at the limit wall=0.2" in seen.stderr
        assert run(env, "x").stdout == "1\n"


def test_code_that_kills_its_interpreter_is_told_so_and_the_episode_goes_on(env):
    run(env, "x = 1\nopen('f', 'w').write('kept')")
    seen = run(env, "print('last words')\nimport os\nos.kill(os.getpid(), 9)")
    assert seen.stdout == "last words\n"
    assert seen.exit_code == -9
    assert "variables are lost, files are kept" in seen.stderr
    assert run(env, "open('f').read(), math.floor(1.5)").stdout == "['kept', 1]\n"
    assert env.state.step_count == 3


def test_the_reward_is_for_safe_and_short_code(env):
    assert run(env, "x = 1  " + "#" * 100).reward == 0.0
    assert run(env, "print('open(')").reward == 0.1
    assert run(env, "def").reward == -0.2
    assert run(env, "import os").reward == -1.0
    assert run(env, "1 / 0").reward == 0.0
    assert run(env, "import os").metadata["rewards"]["code_safety"] == -1.0


def test_trivial_code_is_paid_once_in_an_episode(env):
    assert [run(env, "0").reward for _ in range(3)] == [0.1, 0.0, 0.0]
    with env.fork() as twin:
        assert run(twin, "0").reward == 0.0
    kept = env.snapshot()
    env.reset()
    assert run(env, "0").reward == 0.1
    env.restore(kept)
    assert run(env, "0").reward == 0.0


def test_code_that_ends_its_interpreter_earns_nothing_whatever_its_exit_code(env):
    env.transform = CodeQualityTransform()
    seen = run(env, "import os\nos._exit(0)")
    assert (seen.exit_code, seen.reward) == (0, 0.0)
    assert (seen.metadata["success"], seen.metadata["state"]) == (False, "restarted")


def test_a_limit_that_was_reached_is_named():
    with CodingEnvironment(limits={"wall": 0.2}) as env:
        env.reset()
        assert run(env, "while True: pass").metadata["limit"] == "wall"
        assert "limit" not in run(env, "1").metadata


def test_what_was_written_is_the_answer_and_not_its_length(env):
    env.transform = MathProblemTransform(42)
    seen = run(env, "import sys\nsys.stdout.write('42\\n')")
    assert (seen.stdout, seen.reward, seen.done) == ("42\n3\n", 1.0, True)


def test_another_transform_takes_its_place_and_none_scores_nothing(env):
    env.transform = create_math_env_transform(expected_answer=42)
    assert run(env, "21 * 2").reward == 1.1
    env.reset()
    assert run(env, "print(21 * 2)").reward == 1.1
    env.reset()
    env.transform = None
    assert run(env, "21 * 2").reward is None
    with CodingEnvironment(transform=None) as other:
        other.reset()
        assert run(other, "21 * 2").reward is None


def test_a_transform_of_a_name_that_there_is_not_is_refused():
    with pytest.raises(UsageError, match="'sfae'"):
        CodingEnvironment(transform="sfae")


def test_a_transform_that_raises_is_no_score_of_zero(env):
    env.transform = lambda seen: seen.nothing
    with ew.adapt(env) as handle:
        handle.reset()
        result = handle.step({"code": "1"})
        assert result.reward is None
        assert "AttributeError" in result.info["error"]["message"]
        assert result.observation.stdout == "1\n"


def test_what_it_returns_has_no_part_in_its_state(env):
    state = env.state
    state.step_count = 99
    assert env.state == CodeState()
    assert run(env, "1").metadata["last_code"] == "1"


def test_a_handle_forks_it_with_its_live_variables():
    with ew.make("coding") as env:
        env.reset(seed=3)
        env.step(CodeAction(code="x = [1]"))
        with env.fork() as twin:
            twin.step(CodeAction(code="x.append(2)"))
            assert twin.step(CodeAction(code="x")).obs.stdout == "[1, 2]\n"
            assert env.step(CodeAction(code="x")).obs.stdout == "[1]\n"
            assert twin.state().step_count == 3
            assert twin.id == "coding#0.1"


def test_an_async_handle_forks_it_too():
    async def play():
        async with ew.make("coding").aio as env:
            await env.reset(seed=3)
            await env.step(CodeAction(code="x = 1"))
            async with await env.fork() as twin:
                return (await twin.step(CodeAction(code="x"))).obs.stdout

    assert asyncio.run(play()) == "1\n"


def test_a_snapshot_of_a_handle_is_kept_after_its_close_and_restored_in_another():
    with ew.make("coding") as env:
        env.reset(seed=3)
        env.step(CodeAction(code="x = 7"))
        kept = env.snapshot()
    with ew.make("coding") as other:
        other.reset()
        other.restore(kept)
        assert other.step(CodeAction(code="x")).obs.stdout == "7\n"
        assert other.state().step_count == 2


def test_several_branches_of_one_state_in_a_vector_of_forks(env):
    run(env, "total = 10")
    branches = [env.fork() for _ in range(4)]
    for number, branch in enumerate(branches):
        assert run(branch, f"total += {number}\ntotal").stdout == f"{10 + number}\n"
        branch.close()
    assert run(env, "total").stdout == "10\n"


def test_it_keeps_the_contract():
    report = check_env("coding", episodes=1, max_steps=20)
    assert report.ok, str(report)


def test_its_client_knows_its_types():
    client = CodingEnv()
    assert (client.action_type, client.observation_type, client.state_type) == (CodeAction, CodeObservation, CodeState)

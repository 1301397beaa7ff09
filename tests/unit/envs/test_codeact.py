"""Actions are Python code: what lasts, what is seen, what it is worth."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import envweave as ew
import envweave.codeact
import envweave.envs.codeact
from envweave.codeact import (
    CodeActEnvironment,
    CodeAction,
    CodeObservation,
    CodeState,
    ExecutionResult,
    create_codeact_env,
    create_mcp_environment,
)
from envweave.envs import coding
from envweave.errors import ClosedError, InvalidActionError, ResetNeededError, UsageError
from envweave.rewards import MathProblemTransform, create_math_env_transform
from envweave.testing.check import check_env
from envweave.tools import ToolRegistry


@pytest.fixture
def env():
    with create_codeact_env() as made:
        made.reset(seed=1)
        yield made


def run(env, code):
    return env.step(CodeAction(code=code)).execution_result


def test_it_is_used_as_its_users_write_it():
    env = create_codeact_env()
    obs = env.reset()
    assert obs == CodeObservation()
    obs = env.step(CodeAction(code="x = 10\ny = 20\nresult = x * y\nprint(f'Result: {result}')\nresult"))
    assert obs.execution_result.stdout == "Result: 200\n"
    assert obs.execution_result.return_value == 200
    assert obs.execution_result.success
    assert env.step(CodeAction(code="math.sqrt(16)")).execution_result.return_value == 4.0
    env.close()


def test_envweave_codeact_has_all_its_names():
    assert set(envweave.envs.codeact.__all__) < set(envweave.codeact.__all__)
    for name in envweave.envs.codeact.__all__:
        assert getattr(envweave.codeact, name) is getattr(envweave.envs.codeact, name)


@pytest.mark.parametrize("module", ["math", "json", "re", "random", "itertools", "collections", "datetime", "time"])
def test_modules_are_at_hand_without_an_import(env, module):
    assert run(env, f"{module}.__name__").return_value == module


def test_variables_and_functions_last_within_an_episode_and_are_gone_after_reset(env):
    run(env, "x = 3\ndef double(n): return 2 * n\nopen('note', 'w').write('here')")
    assert run(env, "double(x)").return_value == 6
    env.reset()
    assert run(env, "x").exception.type == "NameError"
    assert run(env, "double").exception.type == "NameError"
    assert run(env, "import os; os.listdir()").return_value == []


def test_an_exception_is_an_observation_with_its_type_message_and_traceback(env):
    result = run(env, "def halve(n):\n    return n / 0\nhalve(3)")
    assert not result.success
    assert result.exit_code == 1
    assert (result.exception.type, result.exception.message) == ("ZeroDivisionError", "division by zero")
    assert 'File "<step 1>", line 2, in halve' in result.exception.traceback
    assert run(env, "1").success


@pytest.mark.parametrize(
    ("code", "kind"), [("def", "SyntaxError"), ("raise KeyError('k')", "KeyError"), ("exit(3)", "SystemExit")]
)
def test_code_that_fails_leaves_the_episode_as_it_was(env, code, kind):
    run(env, "kept = 1")
    assert run(env, code).exception.type == kind
    assert run(env, "kept").return_value == 1


def test_a_fork_before_the_first_reset_and_a_step_after_close_say_what_is_wrong():
    env = create_codeact_env()
    for call in (env.fork, env.snapshot):
        with pytest.raises(ResetNeededError):
            call()
    assert env.state == CodeState()
    env.reset()
    env.close()
    env.close()
    for call in (lambda: run(env, "1"), env.reset, env.fork, env.snapshot):
        with pytest.raises(ClosedError):
            call()


def test_the_state_has_the_variables_and_their_types(env):
    run(env, "n = 1\nname = 'x'\n_hidden = 2\nimport os\ndef f(): pass")
    run(env, "exit(3)")
    assert env.state == CodeState(
        step_count=2, last_exit_code=3, variables={"n": "int", "name": "str", "f": "function"}
    )


def test_the_episodes_name_is_in_the_state_given_or_not():
    with ew.make("codeact") as env:
        env.reset(episode_id="mine")
        assert env.state().episode_id == "mine"
        assert env.reset().requests
        assert env.state().episode_id == env.close()[0].episode_id != "mine"


def test_the_seed_is_the_codes_too():
    with create_codeact_env() as one, create_codeact_env() as other:
        one.reset(seed=7)
        other.reset(seed=7)
        code = "[random.random(), random.choice('abc'), hash('x'), list({'a', 'b', 'c'})]"
        assert run(one, code).return_value == run(other, code).return_value
        before = run(one, "random.random()").return_value
        one.reset(seed=8)
        assert run(one, "random.random()").return_value != before


@pytest.mark.parametrize("seed", [-1, 0, 2**70])
def test_any_whole_number_is_a_seed(env, seed):
    env.reset(seed=seed)
    first = run(env, "random.random()").return_value
    env.reset(seed=seed)
    assert run(env, "random.random()").return_value == first


@pytest.mark.parametrize("power", [30, 4200, 5000, 60_000])
def test_a_whole_number_is_shown_with_all_its_digits(env, power):
    result = run(env, f"10 ** {power}")
    assert str(result.return_value) == "1" + "0" * power
    assert result.return_is_data == (power <= 4200)
    assert result.limit is None


def test_a_number_of_too_many_digits_is_told_by_their_count(env):
    result = run(env, "10 ** 200_000")
    assert result.return_value == "<int of about 200001 digits>"
    assert result.limit.name == "return_bytes"


# Tools.


def add(left: int, right: int = 1) -> int:
    """Add two numbers."""
    return left + right


async def later(word: str) -> str:
    return word.upper()


def test_tools_are_ordinary_functions_inside():
    registry = ToolRegistry([add, later])
    with create_codeact_env(tools=registry) as env:
        env.reset()
        assert run(env, "[add(1, 2), add(left=5), later('a'), sum(map(add, range(3)))]").return_value == [3, 6, "A", 6]
        assert "Add two numbers." in run(env, "add.__doc__").return_value
        assert env.state.variables == {}
        assert [tool.name for tool in env.tools] == ["add", "later"]


def test_what_a_tool_refuses_or_raises_is_raised_inside():
    def fail(kind: str) -> None:
        raise {"value": ValueError, "own": type("OwnError", (Exception,), {})}[kind]("why")

    with create_codeact_env(tools=[add, fail]) as env:
        env.reset()
        assert run(env, "try: fail('value')\nexcept ValueError as e: said = str(e)\nsaid").return_value == "why"
        assert run(env, "fail('own')").exception.message == "OwnError: why"
        assert "valid integer" in run(env, "add('x')").exception.message
        assert run(env, "add()").exception.type == "TypeError"
        assert run(env, "add(1)").return_value == 2


def test_a_tool_goes_before_a_module_of_its_name():
    with create_codeact_env(tools={"math": add}) as env:
        env.reset()
        assert run(env, "math(1)").return_value == 2
        assert run(env, "json.dumps(1)").return_value == "1"


def test_tools_are_there_again_after_the_interpreter_was_killed():
    with create_codeact_env(tools=[add]) as env:
        env.reset(seed=3)
        first = run(env, "random.random()").return_value
        killed = run(env, "import os; os._exit(9)")
        assert (killed.state, killed.exit_code, killed.success) == ("restarted", 9, False)
        assert run(env, "add(1), math.pi > 3").return_value == [2, True]
        assert run(env, "random.random()").return_value == first, "the episode's seed"


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(UsageError, match="there is a tool 'add' already"):
        create_codeact_env(tools=[add, add])


# Files.


@pytest.fixture
def filing():
    with create_mcp_environment() as made:
        made.reset()
        yield made


def test_the_file_tools_write_read_list_and_delete(filing):
    assert run(filing, "file_write('hello.txt', 'Grüße'); file_read('hello.txt')").return_value == "Grüße"
    run(filing, "file_write('a/b.txt', '')")
    assert run(filing, "file_list()").return_value == ["a/b.txt", "hello.txt"]
    run(filing, "file_delete('hello.txt')")
    assert run(filing, "file_list()").return_value == ["a/b.txt"]
    assert run(filing, "file_read('hello.txt')").exception.type == "FileNotFoundError"
    assert filing.state.variables == {}


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "/home/agent/tmp/x", ".", ""])
def test_the_file_tools_stay_in_the_episodes_folder(filing, path):
    for call in (f"file_read({path!r})", f"file_write({path!r}, 'x')", f"file_delete({path!r})"):
        assert run(filing, call).exception.type == "PermissionError"


def test_the_file_tools_reach_the_tmp_of_the_episode_from_inside_and_outside(filing):
    run(filing, "file_write('/tmp/a/in.txt', 'in')")
    assert run(filing, "open('/tmp/a/in.txt').read()").return_value == "in"
    call = filing.tools.call
    assert call("file_read", {"path": "/tmp/a/in.txt"}) == "in"
    assert call("file_write", {"path": "/tmp/out.txt", "content": "out"}) == "wrote 3 characters to /tmp/out.txt"
    assert run(filing, "file_read('/tmp/out.txt')").return_value == "out"
    assert call("file_delete", {"path": "/tmp/out.txt"}) == "deleted /tmp/out.txt"
    for path in ("/tmp/out.txt", "/tmp/../work/x", "/tmp/../../../etc/passwd"):
        with pytest.raises(ew.EnvWeaveError):
            call("file_read", {"path": path})
    assert not Path("/tmp/a/in.txt").exists()


def test_a_link_out_of_the_folder_is_not_followed(filing):
    run(filing, "import os\nos.symlink('/etc/passwd', 'link')")
    assert run(filing, "file_read('link')").exception.type == "PermissionError"
    with pytest.raises(ew.EnvWeaveError):
        filing.tools.call("file_read", {"path": "link"})


def test_whoever_calls_the_file_tools_from_outside_reaches_the_same_folder(filing):
    call = filing.tools.call
    assert call("file_write", {"path": "x.txt", "content": "hi"}) == "wrote 2 characters to x.txt"
    assert run(filing, "file_read('x.txt')").return_value == "hi"
    assert call("file_list") == ["x.txt"]
    assert call("file_read", {"path": "x.txt"}) == "hi"
    assert call("file_delete", {"path": "x.txt"}) == "deleted x.txt"
    assert call("file_list") == []
    for path in ("../x", "/etc/passwd", "nothing"):
        for tool in ("file_read", "file_delete"):
            with pytest.raises(ew.EnvWeaveError):
                call(tool, {"path": path})


def test_a_call_of_a_file_tool_from_outside_leaves_nothing_in_the_namespace(filing):
    filing.tools.call("file_write", {"path": "x", "content": ""})
    before = run(filing, "sorted(globals())").return_value
    filing.tools.call("file_delete", {"path": "x"})
    assert run(filing, "sorted(globals())").return_value == sorted({*before, "_"})


def test_files_that_are_no_text_are_refused_from_outside(filing):
    run(filing, "open('b', 'wb').write(b'\\xff')")
    with pytest.raises(ew.EnvWeaveError, match="is not text"):
        filing.tools.call("file_read", {"path": "b"})


def test_files_of_one_environment_are_not_those_of_another(filing):
    run(filing, "file_write('mine', 'x')")
    with create_mcp_environment() as other:
        other.reset()
        assert run(other, "file_list()").return_value == []


# Rewards.


def test_a_transform_is_set_and_changed_and_taken_away_at_any_time(env):
    assert env.step(CodeAction(code="21 * 2")).reward is None
    env.transform = create_math_env_transform(expected_answer=42)
    obs = env.step(CodeAction(code="21 * 2"))
    assert obs.reward == 1.1
    assert obs.metadata["rewards"] == {"math_problem": 1.0, "code_quality.concise": 0.1, "code_quality.syntax": 0.0}
    env.reset()
    env.transform = MathProblemTransform(expected_answer=7)
    assert env.step(CodeAction(code="21 * 2")).reward == 0.0
    env.reset()
    env.transform = None
    assert env.step(CodeAction(code="21 * 2")).reward is None


@pytest.mark.parametrize("first", ["42", "41", "print('x = 41')"])
def test_the_first_answer_ends_the_episode_and_no_other_is_paid(env, first):
    env.transform = create_math_env_transform(expected_answer=42)
    for code in ("x = 1", "1 / 0", "def", "print('41 or 42')"):
        assert not env.step(CodeAction(code=code)).done
    kept = env.snapshot()
    obs = env.step(CodeAction(code=first))
    assert (obs.done, obs.reward) == (True, 1.0 if first == "42" else 0.0)
    with env.fork() as twin:
        for each in (env, twin):
            with pytest.raises(ResetNeededError, match="the episode is over"):
                each.step(CodeAction(code="42"))
    env.restore(kept)
    assert env.step(CodeAction(code="42")).reward == 1.0, "style was paid before the snapshot"


def test_repeating_the_answer_earns_it_once():
    with ew.make("codeact", transform=create_math_env_transform(expected_answer=42)) as handle:
        handle.reset()
        result = handle.step(CodeAction(code="42"))
        assert (result.reward, result.terminated) == (1.1, True)
        with pytest.raises(ResetNeededError):
            handle.step(CodeAction(code="42"))


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "x = bytearray(1 << 40)",
        "import os\nos.kill(os.getpid(), 9)",
        "import os\nos._exit(0)",
        "print('x' * 10**7)",
        "class A:\n  def __repr__(self): import os; os._exit(0)\nA()",
        "l = []\nl.append(l)\nl",
        "x = []\nfor _ in range(900): x = [x]\nx",
        "9 ** 9 ** 9",
        "\ud800",
        "(" * 1000,
    ],
)
def test_what_the_code_itself_causes_is_scored_and_never_none(code):
    with create_codeact_env(transform=create_math_env_transform(42), limits={"wall": 0.5}) as env:
        env.reset()
        obs = env.step(CodeAction(code=code))
        assert obs.metadata["rewards"]["math_problem"] == 0.0
        assert obs.reward is not None


def test_a_transform_that_raises_leaves_the_step_unscored_with_the_reason(env):
    env.transform = lambda obs: 1 / 0
    obs = env.step(CodeAction(code="21 * 2"))
    assert obs.reward is None
    assert "ZeroDivisionError" in obs.metadata["error"]["message"]
    assert obs.execution_result.return_value == 42


def test_a_transform_is_applied_once_with_a_handle_and_without():
    def one_more(obs):
        obs.reward = (obs.reward or 0.0) + 1
        return obs

    with create_codeact_env(transform=one_more) as env, ew.adapt(env) as handle:
        handle.reset()
        assert handle.step({"code": "1"}).reward == 1.0
        assert env.step(CodeAction(code="1")).reward == 1.0


def test_a_very_large_answer_is_right_with_all_its_digits(env):
    env.transform = MathProblemTransform(expected_answer=10**5000)
    assert env.step(CodeAction(code="10 ** 5000")).reward == 1.0
    env.reset()
    assert env.step(CodeAction(code="10 ** 5000 + 1")).reward == 0.0


# Branches.


def test_a_fork_goes_its_own_way_with_variables_files_tools_and_chance():
    with create_mcp_environment(tools=[add]) as env:
        env.reset(seed=5)
        run(env, "x = [1]\nfile_write('f', 'begun')")
        with env.fork() as twin:
            run(twin, "x.append(2)\nfile_write('f', 'twin')")
            assert run(env, "x, file_read('f')").return_value == [[1], "begun"]
            assert run(twin, "x, file_read('f'), add(1)").return_value == [[1, 2], "twin", 2]
            assert run(env, "random.random()").return_value == run(twin, "random.random()").return_value
            assert twin.tools.call("file_read", {"path": "f"}) == "twin"
            assert env.tools.call("file_read", {"path": "f"}) == "begun"
            assert (env.state.step_count, twin.state.step_count) == (3, 4)


def test_a_tool_that_is_added_is_there_from_the_next_episode_on_and_in_forks():
    with create_mcp_environment() as env:
        env.reset()
        env.tools.add(add)
        env.reset()
        with env.fork() as twin:
            assert run(twin, "add(1)").return_value == 2
            twin.reset()
            assert run(twin, "add(1), file_list()").return_value == [2, []]
            assert [tool.name for tool in twin.tools] == [tool.name for tool in env.tools]


def test_a_tool_that_is_added_in_the_middle_does_not_stand_in_the_way_of_a_fork(env):
    env.tools.add(add)
    with env.fork() as twin:
        assert run(twin, "1").return_value == 1
        kept = twin.snapshot()
    env.restore(kept)
    assert run(env, "1").return_value == 1


def test_a_fork_outlives_its_original_and_can_be_forked_and_reset(env):
    run(env, "x = 1")
    first = env.fork()
    env.close()
    second = first.fork()
    run(first, "x = 2")
    third = second.fork()
    first.close()
    assert run(third, "x").return_value == 1
    second.reset()
    assert run(second, "x").exception.type == "NameError"
    second.close()
    assert run(third, "x").return_value == 1
    third.close()


def test_a_transform_of_a_fork_is_its_own(env):
    with env.fork() as twin:
        twin.transform = create_math_env_transform(expected_answer=1)
        assert env.step(CodeAction(code="1")).reward is None
        assert twin.step(CodeAction(code="1")).reward == 1.1


def test_a_snapshot_brings_back_variables_files_and_the_count(env):
    run(env, "x = 1\nopen('f', 'w').write('old')")
    kept = env.snapshot()
    for _ in range(2):
        run(env, "x = 2\nopen('f', 'w').write('new')")
        env.restore(kept)
        assert env.state.step_count == 1
        assert run(env, "x, open('f').read()").return_value == [1, "old"]


def test_a_snapshot_is_kept_after_the_close_of_its_environment(env):
    run(env, "x = 1")
    kept = env.snapshot()
    env.close()
    with create_codeact_env() as other:
        other.restore(kept)
        assert run(other, "x, math.pi > 3").return_value == [1, True]
        other.reset()
        assert run(other, "x").exception.type == "NameError"


def test_limits_of_a_snapshot_from_elsewhere_end_with_its_episode(env):
    run(env, "x = 1")
    kept = env.snapshot()
    with create_codeact_env(limits={"output_bytes": 100}) as other:
        other.reset()
        assert len(run(other, "print('y' * 1000)").stdout) < 200
        other.restore(kept)
        assert len(run(other, "print('y' * 1000)").stdout) == 1001
        with other.fork() as twin:
            twin.reset()
            assert len(run(twin, "print('y' * 1000)").stdout) < 200
        other.reset()
        assert len(run(other, "print('y' * 1000)").stdout) < 200


def test_a_snapshot_that_lacks_a_tool_is_without_it_until_the_next_episode(env):
    run(env, "x = 5")
    kept = env.snapshot()
    with create_codeact_env(tools=[add]) as other:
        other.reset()
        other.restore(kept)
        assert run(other, "x").return_value == 5
        assert run(other, "add(x)").exception.type == "NameError"
        with other.fork() as twin:
            twin.reset()
            assert run(twin, "add(1)").return_value == 2


def test_a_tool_of_a_snapshot_from_elsewhere_is_answered_by_the_one_of_its_name_here():
    with (
        create_codeact_env(tools={"who": lambda: "there"}) as there,
        create_codeact_env(tools={"who": lambda: "here"}) as here,
    ):
        there.reset()
        here.restore(there.snapshot())
        assert run(here, "who()").return_value == "here"
        assert run(there, "who()").return_value == "there"


def test_a_snapshot_with_more_tools_brings_them_along(env):
    with create_codeact_env(tools=[add]) as other:
        other.reset()
        kept = other.snapshot()
    env.restore(kept)
    assert run(env, "add(1)").return_value == 2


# What it is made of.


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"limits": {"nope": 1}}, "nope"),
        ({"limits": {"wall": -1}}, "wall"),
        ({"limits": 3}, "3"),
        ({"limits": {"wal": 3}}, "'wal'"),
        ({"transform": 5}, "transform is 5"),
        ({"modules": 5}, "modules is 5"),
        ({"modules": [1]}, "1 is not a module"),
        ({"sandbox": "docker"}, "sandbox is 'docker'"),
        ({"sandbox": {"backnd": "docker"}}, "'backnd'"),
        ({"sandbox": {"limits": None}}, "'limits'"),
        ({"modules": "math"}, "'math'"),
        ({"modules": ["a b"]}, "'a b'"),
        ({"modules": ["os;print(1)"]}, "os;print"),
        ({"sandbox": {"nope": 1}}, "nope"),
        ({"sandbox": {"isolation": "strong"}}, "'strong'"),
        ({"tools": 3}, "3"),
        ({"tools": {"a b": add}}, "a b"),
    ],
)
def test_a_wrong_option_is_the_callers_mistake_at_once_and_has_a_hint(wrong, said):
    with pytest.raises(UsageError) as caught:
        create_codeact_env(**wrong)
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("wrong", "meant"), [({"limits": {"wal": 3}}, "wall"), ({"sandbox": {"backnd": 1}}, "backend")]
)
def test_a_mistyped_name_is_told_the_nearest(wrong, meant):
    with pytest.raises(UsageError) as caught:
        create_codeact_env(**wrong)
    assert caught.value.hint == f"did you mean {meant!r}?"


@pytest.mark.parametrize("seed", ["1", 1.5, True, [1]])
def test_a_seed_is_a_whole_number_or_none(env, seed):
    run(env, "kept = 1")
    with pytest.raises(UsageError, match="the seed is"):
        env.reset(seed=seed)
    assert run(env, "kept").return_value == 1


@pytest.mark.parametrize("action", [{"code": "1"}, "1", None, CodeAction(code=5)], ids=str)
def test_what_is_no_action_is_refused_with_how_to_write_one(env, action):
    with pytest.raises(InvalidActionError, match="the action is") as caught:
        env.step(action)
    assert "CodeAction(code=" in caught.value.hint
    assert env.state.step_count == 0


def test_the_action_is_the_coding_environments_too():
    assert CodeAction is coding.CodeAction
    with ew.make("codeact") as handle:
        handle.reset()
        assert handle.step(coding.CodeAction(code="1 + 1")).observation.execution_result.return_value == 2


def test_the_transform_is_set_on_a_handle_at_any_time():
    with ew.make("codeact") as handle:
        handle.reset()
        handle.transform = create_math_env_transform(expected_answer=42)
        assert handle.step(CodeAction(code="x = 42")).reward == 0.1
        with handle.fork() as twin:
            handle.transform = None
            assert handle.step(CodeAction(code="x")).reward is None
            assert twin.step(CodeAction(code="x")).reward == 1.0


def test_a_reward_that_is_no_number_is_unscored_without_a_handle_too(env):
    env.transform = lambda seen: replace(seen, reward=float("nan"))
    seen = env.step(CodeAction(code="1"))
    assert seen.reward is None
    assert seen.metadata["error"]["message"] == "the transform's reward is nan"


def test_it_does_not_leave_its_process(env):
    with pytest.raises(TypeError, match="live Python cannot leave its process"):
        pickle.dumps(env)


def test_servers_are_the_operators_choice_and_only_here():
    assert {"limits", "modules", "sandbox", "servers", "tasks"} == CodeActEnvironment.OPERATOR_OPTIONS
    assert {"limits", "modules", "sandbox", "tasks"} == coding.CodingEnvironment.OPERATOR_OPTIONS


def test_files_of_the_sandbox_lie_in_each_episodes_folder():
    with create_codeact_env(sandbox={"files": {"data.csv": "1,2"}}) as env:
        for _ in range(2):
            env.reset()
            assert run(env, "open('data.csv').read()").return_value == "1,2"
            run(env, "open('data.csv', 'w').write('gone')")


def test_each_limit_that_fires_is_named():
    with create_codeact_env(limits={"wall": 0.2, "grace": 10, "output_bytes": 100}) as env:
        env.reset()
        run(env, "kept = 1")
        assert run(env, "while True: pass").limit.name == "wall"
        assert run(env, "print('x' * 1000)").limit.name == "output_bytes"
        assert run(env, "kept").return_value == 1


def test_after_a_kill_a_run_can_be_undone_instead():
    with create_codeact_env(sandbox={"after_kill": "rollback"}) as env:
        env.reset()
        run(env, "kept = 1")
        assert run(env, "kept = 2\nimport os\nos._exit(1)").state == "rolled_back"
        assert run(env, "kept, math.pi > 3").return_value == [1, True]


def test_an_interpreter_that_is_gone_for_good_is_an_error_and_not_a_score():
    with create_codeact_env(sandbox={"after_kill": "end"}, transform=create_math_env_transform(1)) as env:
        handle = ew.adapt(env)
        handle.reset()
        assert handle.step({"code": "import os; os._exit(1)"}).obs.execution_result.state == "ended"
        with pytest.raises(ew.errors.SandboxError):
            handle.step({"code": "1"})
        handle.reset()
        assert handle.step({"code": "1"}).reward == 1.1


def test_it_keeps_the_contract():
    report = check_env("codeact", episodes=1, max_steps=20)
    assert report.ok, str(report)


def test_the_result_is_a_plain_value_that_can_be_compared(env):
    assert run(env, "1 + 1") == ExecutionResult(return_value=2)
    assert isinstance(env, CodeActEnvironment)


@pytest.mark.parametrize("call", ["fork", "snapshot"])
def test_a_handle_says_that_there_is_nothing_to_branch_before_the_first_reset(call):
    with ew.make("codeact") as env, pytest.raises(ResetNeededError, match="there is no episode yet"):
        getattr(env, call)()

"""Episodes with a task: how they end, what they pay, and what is told."""

import pytest

import envweave as ew
from envweave.envs.codeact import CodeActEnvironment, CodeAction
from envweave.envs.coding import CodingEnvironment
from envweave.errors import UsageError
from envweave.tools import Tool

SUM = {"id": "sum", "prompt": "1 + 2?", "answer": 3}
DOUBLE = {
    "id": "double",
    "prompt": "Write `double(x)`.",
    "function": "double",
    "tests": [{"args": [1], "expected": 2}, {"args": ["a"], "expected": "aa"}, {"args": [[]], "expected": []}],
    "solution": "def double(x):\n    return x + x\n",
}
TASKS = [SUM, DOUBLE]


@pytest.fixture(params=["codeact", "coding"])
def env(request):
    with ew.make(request.param, tasks=TASKS) as made:
        yield made


@pytest.fixture
def repl():
    with ew.make("repl", tasks=[{**SUM, "context": "1 2"}, DOUBLE]) as made:
        yield made


def run(env, code):
    return env.step({"code": code})


def test_an_answer_ends_the_episode(env):
    env.reset(task="sum")
    result = run(env, "submit(1 + 2)")
    assert (result.reward, result.terminated, result.truncated, result.info["verdict"]) == (1.0, True, False, "right")
    env.reset(task="sum")
    result = run(env, "submit(4)")
    assert (result.reward, result.terminated, result.info["verdict"]) == (0.0, True, "wrong")


def test_an_answer_that_cannot_be_compared_is_not_scored(env):
    env.reset(task={"prompt": "?", "answer": [1, "two"]})
    result = run(env, "submit([1, 2])")
    assert (result.reward, result.terminated, result.info["verdict"]) == (None, True, "undecided")


def test_a_function_is_tested_as_it_is_at_the_end_of_the_run(env):
    env.reset(task="double")
    assert run(env, "def double(x):\n    return 0").reward == 0.0
    result = run(env, "submit()\ndef double(x):\n    return 2 * x")
    assert (result.reward, result.info["tests"]) == (1.0, {"passed": 3, "total": 3})


def test_the_first_failing_test_ends_the_grading(env):
    env.reset(task="double")
    result = run(env, "def double(x):\n    return 2 * x if x == 1 else 0\nsubmit()")
    assert (result.reward, result.info["tests"]) == (0.0, {"passed": 1, "total": 3})


@pytest.mark.parametrize(
    ("expected", "returned"),
    [
        (1, "True"),
        (1, "1.0"),
        (1, "type('Number', (int,), {})(1)"),
        (True, "1"),
        (2.0, "2"),
        (0.5, "fractions.Fraction(1, 2)"),
        (None, "0"),
        ("a", "b'a'"),
        ([1], "(1,)"),
        ([1], "{1}"),
        ([[1]], "[(1,)]"),
        ({"1": 2}, "{1: 2}"),
    ],
)
def test_values_of_other_types_are_not_equal(env, expected, returned):
    task = {"prompt": "?", "function": "f", "tests": [{"args": [], "expected": expected}]}
    env.reset(task=task)
    assert run(env, f"def f():\n    return {returned}\nsubmit()").reward == 0.0
    env.reset(task=task)
    assert run(env, f"def f():\n    return {expected!r}\nsubmit()").reward == 1.0


def test_the_budget_ends_an_episode_without_a_reward(env):
    env.reset(task={**SUM, "max_steps": 2})
    assert not run(env, "x = 1").done
    result = run(env, "x = 2")
    assert (result.reward, result.terminated, result.truncated) == (0.0, False, True)
    assert result.info["remaining"] == {"steps": 0}


def test_a_submission_in_the_last_step_counts(env):
    env.reset(task={**SUM, "max_steps": 1})
    result = run(env, "submit(3)")
    assert (result.reward, result.terminated, result.truncated) == (1.0, True, False)


def test_there_are_ten_steps_unless_somebody_says_otherwise(env):
    assert env.reset(task="sum").info["remaining"] == {"steps": 10}
    assert env.reset(task={**SUM, "max_steps": 20}).info["remaining"] == {"steps": 20}


def test_the_lower_budget_holds():
    with ew.make("codeact", max_steps=3, max_seconds=100) as env:
        assert env.reset(task=SUM).info["remaining"] == {"steps": 3, "seconds": 100}
        assert env.reset(task={**SUM, "max_steps": 5, "max_seconds": 7}).info["remaining"]["seconds"] == 7
        assert env.reset(task={**SUM, "max_steps": 2}).info["remaining"]["steps"] == 2


def test_all_runs_together_have_their_time(env):
    env.reset(task={**SUM, "max_seconds": 0.3})
    result = run(env, "while True: pass")
    assert (result.reward, result.truncated, result.info["limit"]) == (0.0, True, "max_seconds")
    assert result.info["remaining"] == {"steps": 9, "seconds": 0.0}


def test_code_that_exceeds_a_limit_of_its_task_is_told_so_and_the_episode_goes_on(env):
    env.reset(task={**SUM, "limits": {"wall": 0.2, "output_bytes": 100}})
    result = run(env, "while True: pass")
    assert (result.reward, result.done, result.info["limit"]) == (0.0, False, "wall")
    assert run(env, "print('x' * 1000)").info["limit"] == "output_bytes"
    assert run(env, "submit(3)").reward == 1.0
    env.reset(task="sum")
    assert "limit" not in run(env, "print('x' * 1000)").info


def test_the_time_of_a_task_is_not_for_what_the_environment_prepares():
    def slow_tool() -> str:
        """A tool whose definition takes longer than the task gives to code."""
        return ""

    source = "import time\ntime.sleep(0.3)\ndef slow_tool(): return 'ready'"
    with ew.make("codeact", tools=[Tool.of(slow_tool, source=source)]) as env:
        env.reset(task={**SUM, "limits": {"wall": 0.1}})
        assert run(env, "while True: pass").info["limit"] == "wall"
        assert run(env, "slow_tool()").obs.execution_result.return_value == "ready"


def test_a_submission_of_code_that_fails_is_not_taken(env):
    env.reset(task="sum")
    result = run(env, "submit(3)\n1 / 0")
    assert (result.reward, result.done) == (0.0, False)
    assert result.info["submission"].startswith("not taken")
    assert run(env, "submit(4)").reward == 0.0


def test_the_first_submission_of_a_run_counts(env):
    env.reset(task="sum")
    assert run(env, "submit(4)\nsubmit(3)").reward == 0.0


def test_an_answer_that_is_no_data_is_an_exception(env):
    env.reset(task="sum")
    assert not run(env, "submit(object())").done
    assert not run(env, "submit()").done


def test_the_first_observation_has_what_the_agent_must_know(env):
    told = env.reset(task="double").obs.metadata
    assert told["prompt"] == DOUBLE["prompt"]
    assert [tool["name"] for tool in told["tools"]] == ["submit"]
    assert told["tools"][0]["inputSchema"]["properties"] == {}
    assert list(env.reset(task="sum").obs.metadata["tools"][0]["inputSchema"]["properties"]) == ["answer"]


def test_tools_of_the_environment_are_listed_before_submit():
    def search(word: str) -> str:
        """Find a word."""
        return word

    with ew.make("codeact", tools=[search], tasks=TASKS) as env:
        told = env.reset(task="sum").obs.metadata["tools"]
        assert [(tool["name"], tool["description"]) for tool in told[:1]] == [("search", "Find a word.")]
        assert told[1]["name"] == "submit"
        assert env.step({"code": "submit(len(search('abc')))"}).reward == 1.0


def test_a_tool_that_is_called_submit_is_refused():
    def submit() -> None:
        """Something else."""

    with ew.make("codeact", tools=[submit]) as env:
        env.reset()
        with pytest.raises(UsageError, match="there is a tool 'submit' already"):
            env.reset(task=SUM)


@pytest.mark.parametrize("name", ["codeact", "coding"])
def test_without_a_task_there_is_nothing_to_submit(name):
    with ew.make(name) as env:
        assert env.reset().obs.metadata == {}
        result = env.step({"code": "submit(3)"})
        assert "NameError" in str(result.obs)
        assert not result.done
        assert env.reset(task=SUM).info["task_id"] == "sum"
        assert env.step({"code": "submit(3)"}).reward == 1.0
        env.reset()
        assert "NameError" in str(env.step({"code": "submit(3)"}).obs)


@pytest.mark.parametrize("kind", [CodeActEnvironment, CodingEnvironment])
def test_an_environment_without_a_handle_selects_its_task(kind):
    with kind(tasks=TASKS) as env:
        assert env.reset(seed=1).metadata["prompt"] == DOUBLE["prompt"]
        assert env.reset(task="sum").metadata["prompt"] == SUM["prompt"]
        assert env.reset(task=DOUBLE).metadata["prompt"] == DOUBLE["prompt"]
        assert env.step(CodeAction(code=DOUBLE["solution"] + "submit()")).reward == 1.0
    with kind() as env, pytest.raises(UsageError, match="the task is 'sum'"):
        env.reset(task="sum")


def test_the_default_transform_does_not_change_the_reward_of_a_task():
    with ew.make("coding", tasks=TASKS) as env:
        env.reset(task="sum")
        assert run(env, "import os\nos.system('true')").reward == 0.0
        assert run(env, "submit(3)").reward == 1.0


def test_a_transform_that_was_asked_for_sees_the_reward():
    def half(seen):
        seen.reward = seen.reward / 2
        return seen

    with ew.make("coding", tasks=TASKS, transform=half) as env:
        env.reset(task="sum")
        assert run(env, "submit(3)").reward == 0.5


def test_a_fork_has_the_task_and_a_submission_of_its_own(env):
    env.reset(task={**SUM, "max_steps": 3})
    run(env, "x = 3")
    with env.fork() as twin:
        assert run(twin, "submit(x)").reward == 1.0
        result = run(env, "1")
        assert (result.done, result.info["remaining"]) == (False, {"steps": 1})
        assert run(env, "submit(4)").reward == 0.0


def test_a_snapshot_has_the_task_and_its_budget(env):
    env.reset(task={**DOUBLE, "max_steps": 3})
    run(env, DOUBLE["solution"])
    moment = env.snapshot()
    assert run(env, "del double\nsubmit()").reward == 0.0
    env.reset(task="sum")
    env.restore(moment)
    assert run(env, "1").info["remaining"] == {"steps": 1}
    assert run(env, "submit()").reward == 1.0


def test_a_seed_selects_a_task_and_the_next_resets_draw_others(env):
    assert [env.reset(seed=seed).info["task_id"] for seed in range(3)] == ["sum", "double", "sum"]
    assert env.reset().info["task_id"] in ("sum", "double")


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"max_steps": 1.5}, {"max_seconds": -1}, {"max_seconds": True}])
def test_a_budget_is_a_positive_number(options):
    with pytest.raises(ew.UsageError, match=next(iter(options))):
        ew.make("codeact", **options)


def test_the_repl_takes_context_prompt_and_answer_from_the_task(repl):
    seen = repl.reset(task="sum").obs
    assert (seen.context_preview, seen.metadata["prompt"], seen.max_iterations) == ("1 2", SUM["prompt"], 30)
    result = run(repl, "FINAL(sum(map(int, context.split())))")
    assert (result.reward, result.terminated) == (1.0, True)
    repl.reset(task="sum")
    assert repl.step({"is_final": True, "final_answer": "4"}).reward == 0.0


def test_the_repl_tests_a_function_at_the_final_answer(repl):
    repl.reset(task="double")
    assert run(repl, "1 / 0").reward == 0.0
    result = run(repl, DOUBLE["solution"] + "FINAL('done')")
    assert (result.reward, result.info["tests"]) == (1.0, {"passed": 3, "total": 3})
    repl.reset(task="double")
    result = repl.step({"is_final": True, "final_answer": "done"})
    assert (result.reward, result.info["tests"]) == (0.0, {"passed": 0, "total": 3})


def test_the_repl_has_the_budget_of_the_task(repl):
    assert repl.reset(task={**SUM, "max_steps": 1}).obs.max_iterations == 1
    result = run(repl, "1")
    assert (result.reward, result.truncated) == (0.0, True)
    repl.reset(task={**SUM, "max_seconds": 0.3})
    result = run(repl, "while True: pass")
    assert (result.reward, result.truncated, result.info["limit"]) == (0.0, True, "max_seconds")


@pytest.mark.parametrize("own", [{"context": "x"}, {"task_prompt": "x"}, {"expected_answer": 3}])
def test_the_repl_refuses_what_the_task_has_already(repl, own):
    with pytest.raises(ew.UsageError, match=f"{next(iter(own))} is given beside a task"):
        repl.reset(task="sum", **own)

"""All tasks that ship, played in the real environments: only right solutions are paid."""

import ast
import json
from pathlib import Path

import pytest

import envweave as ew
from envweave.envs.code_tasks import open_tasks

TASKS = open_tasks("programming")
NEAR_MISSES = [
    json.loads(line) for line in (Path(__file__).parents[1] / "near_misses.jsonl").read_text("utf-8").splitlines()
]
SUBMIT = {"codeact": "submit()", "coding": "submit()", "repl": "FINAL('done')"}


@pytest.fixture(scope="module", params=SUBMIT)
def play(request):
    """Play one step of a task in one environment, which all tests share."""
    with ew.make(request.param, tasks="programming") as env:

        def step(task, code):
            assert env.reset(task=task).info["task_id"] == task
            return env.step({"code": f"{code}\n{SUBMIT[request.param]}"})

        yield step


def test_the_solutions_are_right(play):
    for task in TASKS:
        result = play(task.id, task["solution"])
        total = len(task["tests"])
        assert (result.reward, result.terminated, result.info["tests"]) == (
            1.0,
            True,
            {"passed": total, "total": total},
        )


@pytest.mark.parametrize("code", ["", "def {}(*args):\n    pass\n", "def {}(*args):\n    return args[0]\n"])
def test_nothing_is_wrong(play, code):
    for task in TASKS:
        result = play(task.id, code.format(task["function"]))
        assert (result.reward, result.terminated) == (0.0, True), task.id


def test_near_misses_are_wrong(play):
    for miss in NEAR_MISSES:
        result = play(miss["id"], miss["code"])
        assert (result.reward, result.terminated) == (0.0, True), miss
        assert result.info["tests"]["passed"] < result.info["tests"]["total"]


def test_the_visible_examples_alone_are_wrong(play):
    for task in TASKS:
        shown = dict(examples(task))
        code = (
            f"def {task['function']}(*args):\n    return {shown!r}.get(repr(args), {task['example']['expected']!r})\n"
        )
        assert play(task.id, code).reward == 0.0, task.id


def examples(task):
    for line in task.prompt.splitlines():
        if line.startswith(f"    {task['function']}("):
            call, expected = line.rsplit(" -> ", 1)
            arguments = ast.parse(call.strip(), mode="eval").body.args
            yield repr(tuple(map(ast.literal_eval, arguments))), ast.literal_eval(expected)

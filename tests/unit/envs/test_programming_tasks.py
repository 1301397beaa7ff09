"""Programming tasks: prompts, hidden tests and reference solutions agree, and wrong solutions fail."""

import ast
import copy
import json
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest


def read(text):
    return [json.loads(line) for line in text.splitlines()]


TASKS = read((files("envweave.envs") / "data" / "programming.jsonl").read_text(encoding="utf-8"))
NEAR_MISSES = read((Path(__file__).parent / "near_misses.jsonl").read_text(encoding="utf-8"))

each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])


def same(left, right):
    """Equality of JSON values, in which True is not 1 and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def passed(code, task, tests):
    """Run `code` in a fresh namespace and return which of the tests it passes."""
    namespace = {"__name__": "solution"}
    exec(code, namespace)
    function = namespace.get(task["function"])
    results = []
    for test in tests:
        try:
            results.append(same(function(*copy.deepcopy(test["args"])), test["expected"]))
        except Exception:  # wrong solutions may raise anything
            results.append(False)
    return results


def visible_examples(task):
    """The examples in the prompt: lines of the form `function(…) -> value`."""
    examples = []
    for line in task["prompt"].splitlines():
        if line.startswith(f"    {task['function']}("):
            call, expected = line.rsplit(" -> ", 1)
            arguments = ast.parse(call.strip(), mode="eval").body.args
            examples.append(
                {"args": [ast.literal_eval(value) for value in arguments], "expected": ast.literal_eval(expected)}
            )
    return examples


def test_there_are_tasks_of_all_levels_in_both_splits():
    assert len(TASKS) >= 48
    splits = Counter(task["split"] for task in TASKS)
    assert splits.keys() == {"train", "test"}
    assert splits["train"] >= 36
    assert splits["test"] >= 12
    for split in splits:
        levels = Counter(task["level"] for task in TASKS if task["split"] == split)
        assert levels.keys() == {"easy", "medium", "hard"}
        assert max(levels.values()) - min(levels.values()) <= 2


def test_ids_functions_and_prompts_are_unique():
    for field in ("id", "function", "prompt"):
        assert len({task[field] for task in TASKS}) == len(TASKS)


def test_every_task_has_a_near_miss():
    assert {miss["id"] for miss in NEAR_MISSES} == {task["id"] for task in TASKS}


@each_task
def test_a_task_has_all_fields(task):
    assert list(task) == ["id", "split", "level", "prompt", "function", "example", "tests", "solution"]
    assert task["id"].replace("-", "").isalnum()
    assert task["id"] == task["id"].lower()
    assert task["function"].isidentifier()
    assert 8 <= len(task["tests"]) <= 15
    for test in [task["example"], *task["tests"]]:
        assert list(test) == ["args", "expected"]
        assert isinstance(test["args"], list)


@each_task
def test_every_value_is_json_that_all_parsers_read_alike(task):
    def check(value):
        assert value is None or isinstance(value, bool | int | float | str | list | dict)
        if isinstance(value, int | float):
            assert abs(value) < 2**53
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(inner)

    check(task)
    assert same(json.loads(json.dumps(task, allow_nan=False)), task)


@each_task
def test_the_prompt_names_the_function_and_shows_the_example(task):
    assert task["prompt"].startswith(f"Write a Python function `{task['function']}(")
    assert same(visible_examples(task)[0], task["example"])


@each_task
def test_the_solution_passes_all_tests_and_examples(task):
    assert all(passed(task["solution"], task, [task["example"], *visible_examples(task), *task["tests"]]))


@each_task
def test_hidden_tests_differ_from_each_other_and_from_the_visible_examples(task):
    arguments = [json.dumps(test["args"], sort_keys=True) for test in [*visible_examples(task), *task["tests"]]]
    assert len(set(arguments)) == len(arguments)


@each_task
def test_a_constant_passes_at_most_half_of_the_tests(task):
    answers = Counter(json.dumps(test["expected"], sort_keys=True) for test in task["tests"])
    assert max(answers.values()) * 2 <= len(task["tests"])


@each_task
@pytest.mark.parametrize("body", ["pass", "return None", "return args", "return args[0]"])
def test_an_empty_solution_fails(task, body):
    assert not all(passed(f"def {task['function']}(*args):\n    {body}\n", task, task["tests"]))


@each_task
def test_no_solution_at_all_fails(task):
    assert not any(passed("pass", task, task["tests"]))


@each_task
def test_hard_coded_examples_fail(task):
    code = "\n".join(
        [
            f"examples = {visible_examples(task)!r}",
            f"def {task['function']}(*args):",
            "    for example in examples:",
            "        if list(args) == example['args']:",
            "            return example['expected']",
            f"    return {task['example']['expected']!r}",
        ]
    )
    assert all(passed(code, task, visible_examples(task)))
    assert not all(passed(code, task, task["tests"]))


@pytest.mark.parametrize("miss", NEAR_MISSES, ids=lambda miss: f"{miss['id']}-{miss['mistake'].replace(' ', '-')}")
def test_a_near_miss_passes_the_visible_examples_and_fails_a_hidden_test(miss):
    task = next(task for task in TASKS if task["id"] == miss["id"])
    assert all(passed(miss["code"], task, [task["example"], *visible_examples(task)]))
    assert not all(passed(miss["code"], task, task["tests"]))


def test_values_of_different_types_are_not_the_same():
    assert same([1, {"a": None}], [1, {"a": None}])
    for left, right in [(True, 1), (1, 1.0), ([0], [False]), ({"a": 1}, {"a": 1.0}), ([1], (1,)), ("", None)]:
        assert not same(left, right)

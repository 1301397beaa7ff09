"""Choosing the operator that repairs a function."""

import json
import re
from collections import Counter

import pytest

import envweave as ew
from envweave.envs.codefix import codefix_tasks
from envweave.errors import UsageError


def chosen(task):
    return task["options"]["ABCD".index(task["answer"])]


def test_the_chosen_operator_makes_the_code_do_what_is_told():
    for task in codefix_tasks("train")[:300]:
        _, code, call = task.prompt.split("\n\n")
        expression, expected = re.fullmatch(r"(f\(\d+, \d+\)) must be (-?\d+)\.", call).groups()
        wrong = re.search(r"return \w+ (\S+) \w+", code)[1]
        right = []
        for operator in task["options"]:
            scope = {}
            exec(code.replace(f" {wrong} ", f" {operator} "), scope)
            if eval(expression, scope) == int(expected):
                right.append(operator)
        assert right == [chosen(task)]
        assert wrong != chosen(task)


def test_gold_earns_one_and_other_choices_nothing():
    with ew.make("codefix") as env:
        for seed in range(20):
            env.reset(seed=seed)
            gold = env.unwrapped.gold().choice
            rewards = {}
            for choice in "ABCD":
                env.reset(seed=seed)
                rewards[choice] = env.step({"choice": choice}).reward
            assert rewards == {choice: float(choice == gold) for choice in "ABCD"}


def test_no_rule_that_ignores_the_description_is_good():
    tasks = list(codefix_tasks("test"))
    assert max(Counter(task["answer"] for task in tasks).values()) < 0.3 * len(tasks)
    by_code = Counter((task.prompt.split("\n\n")[1].split()[-2], chosen(task)) for task in tasks)
    wrongs = {wrong for wrong, _ in by_code}
    best = sum(max(count for (wrong, _), count in by_code.items() if wrong == one) for one in wrongs)
    assert best < 0.4 * len(tasks)


def test_splits_share_no_problem_and_no_combination_of_phrase_and_frame():
    def told(split):
        return {
            re.sub(r"\b(a|b|m|n|x|y|left|right|price|count|rate|size|width|load|total|step)\b", "_", text)
            for text in (task.prompt.split("\n\n")[0] for task in codefix_tasks(split)[:2000])
        }

    prompts = {task.prompt for task in codefix_tasks("train")}
    assert len(prompts) > 19_000  # nearly all differ
    assert not prompts & {task.prompt for task in codefix_tasks("test")}
    train, test = told("train"), told("test")
    assert len(train) >= 80
    assert len(test) >= 25
    assert not train & test


def test_problems_are_the_same_on_every_machine():
    assert codefix_tasks("train")["train/0"].prompt.startswith("The function must return b increased by size.")
    with ew.make("codefix", seed=4) as one, ew.make("codefix", seed=4) as other, ew.make("codefix", seed=5) as third:
        assert one.tasks.ids[:50] == other.tasks.ids[:50] != third.tasks.ids[:50]


def test_problems_may_come_from_a_file(tmp_path):
    row = {"prompt": "?", "options": ["+", "-", "*", "//"], "answer": "C"}
    (tmp_path / "own.jsonl").write_text(json.dumps(row) + "\n")
    with ew.make("codefix", dataset_path=tmp_path / "own.jsonl") as env:
        assert env.reset().info["task_id"] == "train/0"
        assert env.step({"choice": "C"}).reward == 1.0
    with pytest.raises(UsageError, match="no split 'dev'"):
        ew.make("codefix", split="dev").reset()

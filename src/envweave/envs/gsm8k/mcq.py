"""GSM8K with four options, which an agent that has not solved the problem cannot tell apart.

Four problems share their four answers as options. An agent that sees the options and not the problem is therefore
right exactly once in four, whatever its rule is.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from random import Random
from typing import Any

from envweave.core.task import Task
from envweave.envs.choices import INSTRUCTIONS, LETTERS, ChoiceEnv
from envweave.envs.datasets import located
from envweave.envs.gsm8k.problems import gsm8k_tasks
from envweave.errors import UsageError
from envweave.tasks.tasks import Tasks


class GSM8KMCQEnv(ChoiceEnv):
    """One question with four options, one choice. The right one earns 1."""

    system_prompt = f"Solve the problem. {INSTRUCTIONS}"

    def __init__(
        self,
        *,
        dataset_path: str | os.PathLike[str] | None = None,
        split: str = "train",
        seed: int = 0,
        max_examples: int | None = None,
    ) -> None:
        """`seed` decides the order of the sets and of the options. `max_examples` counts problems of whole sets."""
        if max_examples is not None and (type(max_examples) is not int or max_examples < 4):
            raise UsageError(f"max_examples is {max_examples!r}", "use a number from 4: a set has four problems")
        whole_sets = None if max_examples is None else max_examples // 4 * 4
        self.tasks = choice_tasks(located(dataset_path), split, seed)[:whole_sets]


@lru_cache(maxsize=8)
def choice_tasks(dataset_path: str | None, split: str, seed: int) -> Tasks:
    """The problems of a split in sets of four, which follow one another; a few are left over."""
    sets = [list(members) for members in sets_of_four(gsm8k_tasks(dataset_path, split))]
    if not sets:
        raise UsageError(f"the split {split!r} has no four problems with different answers", "use a larger data set")
    Random(seed).shuffle(sets)
    return Tasks(row for number, members in enumerate(sets) for row in _rows(members, number, seed))


def sets_of_four(tasks: Iterable[Task]) -> Iterable[tuple[Task, ...]]:
    """Problems with four neighbouring answers, each in at most one set."""
    by_answer: dict[Fraction, deque[Task]] = defaultdict(deque)
    for task in tasks:
        by_answer[Fraction(task["answer"])].append(task)
    values = deque(sorted(by_answer))
    window: list[Fraction] = []
    while True:
        window = [value for value in window if by_answer[value]]
        while len(window) < 4 and values:
            window.append(values.popleft())
        if len(window) < 4:
            return
        yield tuple(by_answer[value].popleft() for value in window)


def _rows(members: list[Task], number: int, seed: int) -> Iterable[dict[str, Any]]:
    """The tasks of a set. Each has the same options in an order of its own."""
    answers = [str(member["answer"]) for member in members]
    for member, answer in zip(members, answers, strict=True):
        options = list(answers)
        Random(f"{seed} {member.id}").shuffle(options)
        letter = LETTERS[options.index(answer)]
        kept = {"id": member.id, "split": member.split, "prompt": member.prompt, "set": number}
        yield {**kept, "options": options, "answer": letter, "solution": member["solution"]}

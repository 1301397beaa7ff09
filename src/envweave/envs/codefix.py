"""Code with a wrong operator, and four operators to choose from: a task for small models that learn from scratch."""

from __future__ import annotations

import os
from functools import lru_cache
from random import Random
from typing import Any

from envweave.core.task import Task
from envweave.envs.choices import INSTRUCTIONS, LETTERS, ChoiceEnv
from envweave.envs.datasets import limited
from envweave.errors import UsageError
from envweave.tasks.tasks import Tasks

PHRASES = {
    "+": ("the sum of {a} and {b}", "{a} increased by {b}", "{a} and {b} together", "{b} added to {a}"),
    "-": ("the difference of {a} and {b}", "{a} decreased by {b}", "what is left of {a} without {b}",
          "{b} subtracted from {a}"),
    "*": ("the product of {a} and {b}", "{a} multiplied by {b}", "{a} taken {b} times", "as much as {b} rows of {a}"),
    "//": ("the quotient of {a} and {b}", "{a} divided by {b}", "how often {b} fits into {a}",
           "one share of {a} among {b}"),
}  # fmt: skip
FRAMES = (
    "The function must return {what}.",
    "Return {what}.",
    "It should give {what}, but does not.",
    "A caller expects {what}.",
    "Users want {what} and get something else.",
    "The result has to be {what}.",
    "Its documentation promises {what}.",
    "Make it compute {what}.",
)
NAMES = (
    *("a", "b", "m", "n", "x", "y", "left", "right"),
    *("price", "count", "rate", "size", "width", "load", "total", "step"),
)
SPLITS = {"train": 20_000, "test": 2_000}
"""The number of problems of each split."""


class CodeFixEnv(ChoiceEnv):
    """Choose the operator that repairs a function. The right one earns 1.

    The description is paraphrased, names and numbers are random, and so are the order of the operators and which wrong
    one the code has. Problems of different splits differ in the combination of phrase and frame.
    """

    system_prompt = f"A function has the wrong operator. Choose the right one. {INSTRUCTIONS}"

    def __init__(
        self,
        *,
        dataset_path: str | os.PathLike[str] | None = None,
        split: str = "train",
        seed: int = 0,
        max_examples: int | None = None,
    ) -> None:
        """`dataset_path` is a JSONL file of problems of your own: rows with `prompt`, `options` and `answer`."""
        if dataset_path is not None:
            self.tasks = limited(Tasks.from_jsonl(dataset_path, split=split), seed=seed, max_examples=max_examples)
        else:
            self.tasks = limited(codefix_tasks(split), seed=seed, max_examples=max_examples)


@lru_cache(maxsize=4)
def codefix_tasks(split: str) -> Tasks:
    """The generated problems of a split; the same ones on every machine."""
    if split not in SPLITS:
        raise UsageError(f"no split {split!r}", f"splits: {', '.join(SPLITS)}")
    return Tasks(({"n": n} for n in range(SPLITS[split])), split=split).map(_problem)


def _problem(row: Task) -> dict[str, Any]:
    """Made from the split and the number alone, when the task is asked for."""
    draw = Random(f"codefix {row.split} {row['n']}")
    operator = draw.choice(list(PHRASES))
    phrase, frame = draw.choice(_combinations(row.split))
    first, second = draw.sample(NAMES, 2)
    wrong = draw.choice([other for other in PHRASES if other != operator])
    options = list(PHRASES)
    draw.shuffle(options)
    told = FRAMES[frame].format(what=PHRASES[operator][phrase].format(a=first, b=second))
    one, other = draw.randint(11, 99), draw.randint(2, 10)
    expected = {"+": one + other, "-": one - other, "*": one * other, "//": one // other}[operator]
    code = f"def f({first}, {second}):\n    return {first} {wrong} {second}"
    prompt = f"{told}\n\n{code}\n\nf({one}, {other}) must be {expected}."
    return {"prompt": prompt, "options": options, "answer": LETTERS[options.index(operator)]}


def _combinations(split: str) -> list[tuple[int, int]]:
    """The pairs of phrase and frame of a split; a quarter of them is for tests."""
    pairs = [(phrase, frame) for phrase in range(4) for frame in range(len(FRAMES))]
    return [(phrase, frame) for phrase, frame in pairs if ((phrase + frame) % 4 == 3) == (split == "test")]

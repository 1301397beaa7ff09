"""GSM8K: word problems whose answer is a number, answered in free text."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from envweave.core.environment import Environment
from envweave.core.task import Task
from envweave.envs.datasets import limited, located
from envweave.envs.gsm8k.problems import gsm8k_tasks
from envweave.errors import EnvError
from envweave.rewards import Rubric
from envweave.rewards.grader import grade
from envweave.types import Action, Observation

_MARK = re.compile(r"####|answers? ?(?:is\b|are\b|:|=)", re.IGNORECASE)
_END = re.compile(r"[.!]\s|\n")
_NUMBER = re.compile(r"[-−+]?[$€£¥]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:/\d+)?%?")
_ENDING = re.compile(r"####[^\n]*\d[^\n]*\s*\Z|\\boxed\{[^{}]*\d[^{}]*\}[^\n]*\s*\Z")


@dataclass
class WrittenAnswer(Action):
    """A solution in words, which ends with the answer: `#### 42`."""

    text: str


@dataclass
class WordProblem(Observation):
    """A word problem."""

    prompt: str = ""


class GSM8KEnv(Environment[WrittenAnswer, WordProblem]):
    """One question, one answer. A right number earns 1.

    The number is what is boxed, what follows `####` or `answer:`, or the last number. A reply that ends with `####` or
    a box earns `format_reward` too, right or wrong. Without a number it earns `invalid_reward`, and its verdict is
    `invalid_answer`.
    """

    system_prompt = "Solve the problem step by step. End with a line that has `####` and the number, as in `#### 42`."

    def __init__(
        self,
        *,
        dataset_path: str | os.PathLike[str] | None = None,
        split: str = "train",
        seed: int = 0,
        max_examples: int | None = None,
        format_reward: float = 0.1,
        invalid_reward: float = 0.0,
    ) -> None:
        """`seed` decides the order of the problems, of which the first `max_examples` are played."""
        self.tasks = limited(gsm8k_tasks(located(dataset_path), split), seed=seed, max_examples=max_examples)
        self._rubric = Rubric(
            correct=lambda seen: invalid_reward if seen.metadata["invalid_answer"] else seen.metadata["correct"],
            format=(format_reward, lambda seen: seen.metadata["format"]),
        )
        self._task: Task | None = None

    def reset(self, *, task: Task, seed: int | None = None) -> WordProblem:
        self._task = task
        return WordProblem(task.prompt)

    def step(self, action: WrittenAnswer) -> WordProblem:
        assert self._task is not None  # the handle resets first
        written = final_answer(action.text)
        found = None if written is None else grade(written, self._task["answer"])
        if found is not None and found.verdict == "undecided":
            raise EnvError(f"the task {self._task.id!r} has an answer that cannot be read: {found.reason}")
        is_invalid = found is None or found.verdict == "invalid"
        judged = {
            "correct": found is not None and found.verdict == "right",
            "invalid_answer": is_invalid,
            "format": not is_invalid and _ENDING.search(action.text.rstrip()) is not None,
        }
        seen: WordProblem = self._rubric(WordProblem(done=True, metadata=judged))
        return seen

    def to_messages(self, observation: WordProblem) -> str | list[str]:
        return [] if observation.done else observation.prompt

    def gold(self) -> WrittenAnswer:
        """A right answer to the problem of this episode."""
        assert self._task is not None
        return WrittenAnswer(f"#### {self._task['answer']}")


def final_answer(text: str) -> str | None:
    """The part of a reply that the grader reads as the answer; None if the reply has no number."""
    if "\\boxed{" in text:
        return text
    *_, marked = _MARK.split(text)
    if len(marked) < len(text):
        return _END.split(marked.strip())[0]
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else None

"""An agent's attempt at a task: its budget, what it submits, and how that is graded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from envweave.envs.code_tasks.hidden_tests import count_passed
from envweave.envs.code_tasks.row import CodeTask
from envweave.errors import UsageError
from envweave.rewards.grader import grade
from envweave.sandbox import Session
from envweave.tools import Tool

MAX_STEPS = 10
"""Runs of code, if neither the environment nor the task says how many."""


class Submission:
    """Receives what the code of one episode submits. The first submission of a run counts.

    Each episode has its own, so that a call that comes too late reaches nobody.
    """

    def __init__(self) -> None:
        self._given: tuple[Any, ...] | None = None

    def begin_run(self) -> None:
        self._given = None

    def take(self) -> tuple[Any, ...] | None:
        """The arguments of `submit` in this run; None if it was not called."""
        given, self._given = self._given, None
        return given

    def tool(self, task: CodeTask) -> Tool:
        """`submit`, as the code calls it: without an argument if the task has tests, else with the answer."""

        def submit() -> None:
            self._give(())

        def submit_answer(answer: Any) -> None:
            self._give((answer,))

        ends = "This ends the episode, once the code has run to its end without an exception."
        if task.tests:
            return Tool.of(submit, description=f"Submit the function `{task.function}` that you have defined. {ends}")
        return Tool.of(submit_answer, name="submit", description=f"Submit your answer. {ends}")

    def _give(self, arguments: tuple[Any, ...]) -> None:
        if self._given is None:
            self._given = arguments


@dataclass(frozen=True)
class Attempt:
    """A task, and what is left of its budget. It is never changed in place, so that forks and snapshots share it."""

    task: CodeTask
    max_steps: int
    max_seconds: float | None = None
    steps: int = 0
    seconds: float = 0.0

    @classmethod
    def at(cls, task: CodeTask, max_steps: int | None, max_seconds: float | None) -> Attempt:
        """With the lower of the task's and the environment's bounds."""
        steps = [bound for bound in (task.max_steps, max_steps) if bound is not None]
        seconds = [bound for bound in (task.max_seconds, max_seconds) if bound is not None]
        return cls(task, min(steps, default=MAX_STEPS), min(seconds, default=None))

    def after_run(self, seconds: float) -> Attempt:
        return replace(self, steps=self.steps + 1, seconds=self.seconds + seconds)

    @property
    def seconds_left(self) -> float | None:
        """None if time is not limited."""
        return None if self.max_seconds is None else max(0.0, self.max_seconds - self.seconds)

    @property
    def remaining(self) -> dict[str, Any]:
        """The budget, as it is told to the agent."""
        left = self.seconds_left
        return {"steps": self.max_steps - self.steps} | ({} if left is None else {"seconds": round(left, 3)})

    @property
    def is_spent(self) -> bool:
        return self.steps >= self.max_steps or self.seconds_left == 0.0

    def grade_tests(self, session: Session, wall: float | None) -> tuple[float, dict[str, Any]]:
        """The reward of the function in a session, and what is told about it."""
        passed, total = count_passed(session, self.task, wall), len(self.task.tests)
        return float(passed == total), {"tests": {"passed": passed, "total": total}}

    def grade_answer(self, answer: Any) -> tuple[float | None, dict[str, Any]]:
        """The reward of an answer, which is None if the grader cannot decide, and what is told about it."""
        found = grade(answer, self.task.answer)
        return found.score, {"verdict": found.verdict}


def checked_budget(max_steps: Any, max_seconds: Any) -> tuple[int | None, float | None]:
    """The bounds of an environment. Raises `UsageError` unless they are positive numbers or None."""
    for name, value, kind in (("max_steps", max_steps, int), ("max_seconds", max_seconds, (int, float))):
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind) or not value > 0):
            raise UsageError(f"{name} is {value!r:.80}", "use a positive number, or None")
    return max_steps, max_seconds

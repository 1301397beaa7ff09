"""An environment with tasks."""

from __future__ import annotations

from random import Random
from typing import Any

from envweave.core.task import Task
from envweave.tasks.tasks import Tasks

QUIZ = "pkg://envweave.testing.suites.quiz:QuizEnv"

SECRET = "not for clients"
"""What no task that is listed may have."""


def _row(number: int) -> dict[str, Any]:
    row = {"split": "test" if number % 3 == 0 else "train", "prompt": f"{number} + {number}?", "hidden": SECRET}
    named = {"id": f"add-{number}"} if number % 4 else {}
    return {**named, **row, "answer": str(2 * number), "nested": {"numbers": [number, None, 0.5]}}


class QuizEnv:
    """Answer with the sum. The action "later" asks for the next question, "fail" raises."""

    tasks = Tasks([_row(number) for number in range(250)])

    def __init__(self) -> None:
        self._draw = 0
        self._task = self.tasks[0]

    def reset(self, *, task: Task, seed: int | None = None) -> Any:
        self._task = task
        self._draw = Random(seed).randrange(1000) if seed is not None else 0
        return {"prompt": task.prompt, "fields": dict(task), "draw": self._draw}, {"split": task.split}

    def step(self, action: str) -> Any:
        if action == "fail":
            raise ZeroDivisionError("by a task")
        return (
            {"prompt": self._task.prompt},
            float(action == self._task["answer"]),
            action != "later",
            False,
            {"own": 1},
        )

    def snapshot(self) -> Any:
        return self._task, self._draw

    def restore(self, snapshot: Any) -> None:
        self._task, self._draw = snapshot

"""What an episode is worth: the reward of each of its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from envweave.errors import UsageError

Metric = Callable[[str, str], float]
"""From the expected and the given answer to a part of `on_success`: 1.0 is all of it."""


def exact_match(expected: str, answer: str) -> float:
    """1.0 if both are the same but for case and the space around them."""
    return float(expected.strip().lower() == answer.strip().lower())


@dataclass(frozen=True, kw_only=True)
class Rewards:
    """The reward of a step. An answer is worth `on_success`, by the metric if the right one is known."""

    on_success: float = 1.0
    on_iteration: float = 0.0
    """Each step that is not the last."""
    on_failure: float = -0.1
    """The iterations ran out."""
    on_error: float = -0.05
    """A step whose code failed."""
    metric: Metric = exact_match

    def of_answer(self, answer: str, expected: str | None) -> float:
        return self.on_success if expected is None else self.on_success * self.metric(expected, answer)

    def of_step(self, *, failed: bool) -> float:
        return self.on_error if failed else self.on_iteration


def expected_text(expected: Any) -> str | None:
    """The expected answer as text; numbers are written as Python writes them."""
    if expected is None or isinstance(expected, str):
        return expected
    if isinstance(expected, bool | int | float):
        return str(expected)
    raise UsageError(f"expected_answer is a {type(expected).__name__}", "it is text or a number")

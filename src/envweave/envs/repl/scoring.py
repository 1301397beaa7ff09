"""What an episode is worth: the reward of each of its steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from envweave.core.return_values import read_reward
from envweave.errors import EnvError, UsageError, describe

Metric = Callable[[str, str], float]
"""From the expected and the given answer to a part of `on_success`: 1.0 is all of it."""


_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]{1,300})?")


def exact_match(expected: str, answer: str) -> float:
    """1.0 if both are the same but for case and the space around them, or the same number: 11 and 11.0."""
    one, other = expected.strip().lower(), answer.strip().lower()
    if _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other):
        return float(Fraction(one) == Fraction(other))
    return float(one == other)


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

    def of_answer(self, answer: str, expected: str | None) -> tuple[float | None, dict[str, Any]]:
        """With what is to be told besides: a metric that fails leaves the answer unscored, with the reason."""
        if expected is None:
            return self.on_success, {}
        try:
            score = read_reward(self.metric(expected, answer))
            return (None if score is None else self.on_success * score), {}
        except Exception as error:  # a metric of the user's may raise anything
            return None, {"error": EnvError(f"metric raised {describe(error)}").to_data()}

    def of_step(self, *, failed: bool) -> float:
        return self.on_error if failed else self.on_iteration


def expected_text(expected: Any) -> str | None:
    """The expected answer as text; numbers are written as Python writes them."""
    if expected is None or isinstance(expected, str):
        return expected
    if isinstance(expected, bool | int | float):
        return str(expected)
    raise UsageError(f"expected_answer is a {type(expected).__name__}", "it is text or a number")

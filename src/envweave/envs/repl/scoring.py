"""The rewards of the REPL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from envweave.core.return_values import read_reward
from envweave.errors import EnvError, UsageError, describe
from envweave.rewards.grader import grade

Metric = Callable[[str, str], float | None]
"""From the expected and the given answer to a part of `on_success`: 1.0 is all of it, None is "not scored"."""

_MOST_BITS = 400_000


def correctness(expected: str, answer: str) -> float | None:
    """1.0 for a right answer, 0.0 for a wrong one, by `envweave.rewards.grader`; None if that cannot be decided."""
    return grade(answer, expected).score


@dataclass(frozen=True, kw_only=True)
class Rewards:
    """The reward of a step. An answer is worth `on_success` times the metric, if the expected one is known."""

    on_success: float | None = None
    """None is 1.0 for a right answer, and leaves an answer without an expected one unscored. A number pays for it."""
    on_iteration: float = 0.0
    """Each step that is not the last."""
    on_failure: float = -0.1
    """There are no iterations left."""
    on_error: float = -0.05
    """A step whose code failed."""
    metric: Metric = correctness

    def of_answer(self, answer: str, expected: str | None) -> tuple[float | None, dict[str, Any]]:
        """The reward and more metadata: if the metric raises, the answer is not scored, with the reason."""
        if expected is None:
            return self.on_success, {}
        try:
            score = read_reward(self.metric(expected, answer))
        except Exception as error:  # a user's metric may raise anything
            return None, {"error": EnvError(f"metric raised {describe(error)}").to_data()}
        return (None if score is None else (1.0 if self.on_success is None else self.on_success) * score), {}

    def of_step(self, *, failed: bool) -> float:
        return self.on_error if failed else self.on_iteration


def expected_text(expected: Any) -> str | None:
    """The expected answer as text; None if it is empty."""
    if expected is None or isinstance(expected, str):
        return None if expected is None or not expected.strip() else expected
    if isinstance(expected, bool | float):
        return str(expected)
    if isinstance(expected, int) and expected.bit_length() <= _MOST_BITS:
        return f"{Decimal(expected):f}"  # `str` refuses more than 4,300 digits
    raise UsageError(f"expected_answer is a {type(expected).__name__}", "it must be text or a number")

"""The form that all scoring here takes: contributions by name, and their sum.

    rewards = {"math_problem": 1.0, "code_quality.concise": 0.1}     reward = 1.1
    rewards = {"math_problem": None, "code_quality.concise": 0.1}    reward = None: not everything could be scored

A part of a part has a dotted name, so that the sum of all values is always the reward.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import Any, TypeAlias

from envweave.core.return_values import read_reward
from envweave.errors import BadResultError, EnvError, EnvWeaveError, describe

Value: TypeAlias = "float | Mapping[str, Value] | None"
"""A number, numbers by name, or None for "not scored"."""


@dataclass(frozen=True, slots=True)
class Score:
    """A value with notes: what a scorer has seen, for `metadata`."""

    value: Value
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Scores:
    """What was scored, by name. It is JSON, if what scorers note is."""

    total: float | None = None
    """The sum of `parts`; None if one of them is None, or if there is none."""
    parts: dict[str, float | None] = field(default_factory=dict)
    """Contributions to the total: weight times score."""
    raw: dict[str, float | None] = field(default_factory=dict)
    """The scores before they were weighted."""
    errors: dict[str, dict[str, str]] = field(default_factory=dict)
    """Why a part is None, as the data of an error."""
    notes: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, scorer: Callable[[Any], Any], subject: Any, *, weight: float = 1.0) -> None:
        """Score the subject. A scorer that raises, or gives no finite number, leaves a None with its reason."""
        try:
            found = scorer(subject)
            score = found if isinstance(found, Score) else Score(found)
            self.enter(name, score.value, weight=weight)
            self.notes.update(score.notes)
        except Exception as error:  # somebody's code: its failure is data
            self.fail(name, error)

    def enter(self, name: str, value: Any, *, weight: float = 1.0) -> None:
        """Take a score. Raises `BadResultError`, and takes nothing, if it is no finite number or its name is taken."""
        raw = _flat(name, value)
        parts = {part: _weighted(number, weight) for part, number in raw.items()}
        for part in parts:
            if part in self.parts:
                raise BadResultError(f"two contributions are named {part!r}", "give one of them another name")
        self.total = total({**self.parts, **parts})
        self.parts.update(parts)
        self.raw.update(raw)

    def fail(self, name: str, error: Exception) -> None:
        """Enter that this part has no score, and why."""
        self.parts[name] = None
        self.raw[name] = None
        self.errors[name] = reason(name, error)
        self.total = None


def total(parts: Mapping[str, float | None]) -> float | None:
    """The sum; None if a part is None, or if there is no part. Raises `BadResultError` if it is too large."""
    values = [value for value in parts.values() if value is not None]
    if not parts or len(values) < len(parts):
        return None
    try:
        return fsum(values)
    except OverflowError:
        raise BadResultError("the sum of the rewards is too large for a number") from None


def reason(name: str, error: Exception) -> dict[str, str]:
    """Why there is no score, in the form in which errors stand in `info` and on the wire."""
    if isinstance(error, EnvWeaveError):
        return {**error.to_data(), "message": f"reward {name!r}: {error.message}"}
    return EnvError(f"reward {name!r} raised {describe(error)}").to_data()


def _flat(name: str, value: Any) -> dict[str, float | None]:
    if isinstance(value, Mapping):
        found: dict[str, float | None] = {}
        for part, inner in value.items():
            found.update(_flat(f"{name}.{part}", inner))
        if not found:
            raise BadResultError("no scores came", "return a number, or None for `not scored`")
        return found
    if inspect.iscoroutine(value):
        value.close()
        raise BadResultError("the scorer is a coroutine", "write `def`: rewards are computed without waiting")
    return {name: read_reward(value)}


def _weighted(value: float | None, weight: float) -> float | None:
    if value is None:
        return None
    product = value * weight
    if not isfinite(product):
        raise BadResultError(f"{value} times its weight {weight} is too large for a number")
    return product

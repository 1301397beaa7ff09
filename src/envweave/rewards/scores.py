"""Contributions to a reward by name, and where an observation keeps them.

    rewards = {"math_problem": 1.0, "code_quality.concise": 0.1}     reward = 1.1
    rewards = {"math_problem": None, "code_quality.concise": 0.1}    reward = None: not everything could be scored

    metadata["rewards"]         each contribution by name; their sum is the reward
    metadata["reward_errors"]   by name, why a contribution is None
    metadata["error"]           the first of these

A part of a part has a dotted name. A reward that the environment gave by itself is the contribution "env".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import Any, TypeAlias

from envweave.core.return_values import read_reward
from envweave.errors import BadResultError, EnvError, EnvWeaveError, describe
from envweave.rewards.observation import changed, member, metadata_of

ENV = "env"
Value: TypeAlias = "float | Mapping[str, Value] | None"
"""A number, numbers by name, or None for "not scored"."""


@dataclass(frozen=True, slots=True)
class Score:
    """A value with notes for `metadata`, and whether what was scored ends the episode."""

    value: Value
    notes: Mapping[str, Any] = field(default_factory=dict)
    done: bool = False


@dataclass(slots=True)
class Scores:
    """What was scored, by name. It is JSON if the notes are."""

    total: float | None = None
    """The sum of `parts`; None if one of them is None, or if there is none."""
    parts: dict[str, float | None] = field(default_factory=dict)
    """Contributions to the total: weight times score."""
    raw: dict[str, float | None] = field(default_factory=dict)
    """The scores before they were weighted."""
    errors: dict[str, dict[str, str]] = field(default_factory=dict)
    """Why a part is None, as the data of an error."""
    notes: dict[str, Any] = field(default_factory=dict)
    done: bool = False

    def add(self, name: str, scorer: Callable[[Any], Any], subject: Any, *, weight: float = 1.0) -> None:
        """Score the subject. A scorer that raises, or returns no finite number, leaves a None with the reason."""
        try:
            found = scorer(subject)
            score = found if isinstance(found, Score) else Score(found)
            self.enter(name, score.value, weight=weight)
            self.notes.update(score.notes)
            self.done = self.done or score.done
        except Exception as error:  # a user's scorer may raise anything
            self.fail(name, error)

    def enter(self, name: str, value: Any, *, weight: float = 1.0) -> None:
        """Take a score. Raises `BadResultError`, and takes nothing, if it is not a number or its name is taken."""
        raw = _flat(name, value)
        parts = {part: None if number is None else number * weight for part, number in raw.items()}
        for part, product in parts.items():
            if part in self.parts:
                raise BadResultError(f"two contributions are named {part!r}", "give one of them another name")
            if product is not None and not isfinite(product):
                raise BadResultError(f"{raw[part]} times its weight {weight} is too large for a number")
        self.total = _total({**self.parts, **parts})
        self.parts.update(parts)
        self.raw.update(raw)

    def fail(self, name: str, error: Exception) -> None:
        """Enter that this part has no score, and why."""
        self.parts[name] = self.raw[name] = self.total = None
        if isinstance(error, EnvWeaveError):
            self.errors[name] = {**error.to_data(), "message": f"reward {name!r}: {error.message}"}
        else:
            self.errors[name] = EnvError(f"reward {name!r} raised {describe(error)}").to_data()


def credited(observation: Any, scores: Scores) -> Any:
    """A copy of the observation with these contributions added to those that it has."""
    metadata = metadata_of(observation)
    ledger = _read_ledger(observation, metadata)
    for name, value in scores.parts.items():
        try:
            ledger.enter(name, value)
        except BadResultError as error:  # the name is taken, or the sum too large
            ledger.fail(name, error)
    metadata |= scores.notes
    metadata["rewards"] = ledger.parts
    errors = ledger.errors | scores.errors
    if errors:
        metadata["reward_errors"] = {**metadata.get("reward_errors", {}), **errors}
        metadata["error"] = next(iter(metadata["reward_errors"].values()))
    done = {"done": True} if scores.done and member(observation, "done") is not None else {}
    return changed(observation, reward=ledger.total, metadata=metadata, **done)


def _read_ledger(observation: Any, metadata: Mapping[str, Any]) -> Scores:
    """The contributions so far. What they do not explain of the reward is the environment's."""
    found = metadata.get("rewards", {})
    if not isinstance(found, Mapping):
        problem = f"metadata['rewards'] is a {type(found).__name__}, not numbers by name"
        raise BadResultError(problem, "use another key for it")
    ledger = Scores(parts={name: read_reward(value) for name, value in found.items()})
    known = ledger.total = _total(ledger.parts)
    try:
        reward = read_reward(member(observation, "reward"))
        if reward is not None and reward != known and None not in ledger.parts.values():
            own = ledger.parts.pop(ENV, 0.0) or 0.0
            gap = float(f"{reward - known:.15g}") if known else reward  # 1.1 - 1.0 is 0.1 in 15 digits
            ledger.enter(ENV, own + gap)
    except BadResultError as error:
        ledger.fail(ENV, error)
    return ledger


def _total(parts: Mapping[str, float | None]) -> float | None:
    """The sum; None if a part is None, or if there is no part. Raises `BadResultError` if it is too large."""
    values = [value for value in parts.values() if value is not None]
    if not parts or len(values) < len(parts):
        return None
    try:
        return fsum(values)
    except OverflowError:
        raise BadResultError("the sum of the rewards is too large for a number") from None


def _flat(name: str, value: Any) -> dict[str, float | None]:
    if isinstance(value, Mapping):
        found: dict[str, float | None] = {}
        for part, inner in value.items():
            found.update(_flat(f"{name}.{part}", inner))
        if not found:
            raise BadResultError("the scorer returned no scores", "return a number, or None for `not scored`")
        return found
    if inspect.iscoroutine(value):
        value.close()
        raise BadResultError("the scorer is a coroutine", "write `def`: rewards are computed without waiting")
    return {name: read_reward(value)}

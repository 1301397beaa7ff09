"""What a reward is computed with: transforms, which take an observation and return a new one.

    class Short(RewardTransform):
        def score(self, observation):
            return 1.0 if len(observation.text) < 80 else 0.0

    env.transform = Short()         # at any time, and None to have none

A transform must leave the observation that it was given as it is, metadata included, and be deterministic. Its author
chooses between two bases: `Transform`, which may change anything, and `RewardTransform`, which only scores.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from math import inf, isfinite
from typing import Any

from envweave.errors import UsageError
from envweave.rewards.account import credited
from envweave.rewards.scores import Score, Scores, Value


def snake_case(name: str) -> str:
    """`CodeSafetyTransform` as `code_safety`."""
    short = name.removesuffix("Transform").strip("_") or name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", short).lower()


def checked_name(name: Any) -> str:
    """The name of a contribution. Raises `UsageError` if it is none; dots are kept for parts of parts."""
    if not isinstance(name, str) or not name or "." in name:
        raise UsageError(f"{name!r} cannot name a contribution", "use a text without dots")
    return name


def checked_number(name: str, value: Any, *, least: float = -inf) -> float:
    """A finite number that was given under this name. Raises `UsageError` if it is none, or less than that."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < least:
        hint = "give a finite number" if least == -inf else f"give a number of at least {least:g}"
        raise UsageError(f"{name} is {value!r}", hint)
    return value


class Transform(ABC):
    """Takes an observation and returns a new one. One that raises makes the reward None, with the reason."""

    name: str
    """Under which its contribution stands; the class name in small letters, without "Transform", unless it says so."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in cls.__dict__:
            cls.name = snake_case(cls.__name__)

    @abstractmethod
    def __call__(self, observation: Any) -> Any:
        """The observation as it is to be seen. The one that is given must not be changed."""


class RewardTransform(Transform):
    """A transform that adds one contribution to the reward, and changes nothing else."""

    @abstractmethod
    def score(self, observation: Any) -> Value | Score:
        """The contribution, as a finite number; several by name; or None, which leaves the whole step unscored.

        `Score(value, notes)` adds notes to the metadata. What it raises becomes the reason why there is no score.
        """

    def __call__(self, observation: Any) -> Any:
        scores = Scores()
        scores.add(self.name, self.score, observation)
        return credited(observation, scores)

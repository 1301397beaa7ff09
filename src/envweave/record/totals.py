"""What the lines of an episode add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envweave.requests import DEFAULT_AGENT


class Totals:
    """Steps, seconds and returns, from lines in order."""

    __slots__ = ("returns", "seconds", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self.seconds = 0.0
        self.returns: dict[str, float] = {}
        """The sum of the rewards of each agent that was scored."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next line."""
        self.seconds = event.get("t") or self.seconds
        if event.get("kind") in ("step", "respond"):
            self.steps = event.get("n") or self.steps
            self.reward(event.get("reward"))

    def reward(self, reward: Any) -> None:
        """Add the reward of a step. One that is None is not scored, and not 0."""
        if reward.__class__ is float or reward.__class__ is int:
            self.returns[DEFAULT_AGENT] = self.returns.get(DEFAULT_AGENT, 0.0) + reward
        elif isinstance(reward, Mapping):
            for agent, value in reward.items():
                if value is not None:
                    self.returns[agent] = self.returns.get(agent, 0.0) + value

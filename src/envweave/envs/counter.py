"""Count up to a target: the smallest environment there is."""

from __future__ import annotations

from dataclasses import dataclass

from envweave.core.environment import Environment
from envweave.types import Action, Observation


@dataclass
class Increment(Action):
    """Change the counter by `delta`."""

    delta: int


@dataclass
class Count(Observation):
    """The value of the counter."""

    value: int


class CounterEnv(Environment[Increment, Count]):
    """Add up to `done_at`; the reward is the counter's value."""

    def __init__(self, *, start: int = 0, done_at: int = 3) -> None:
        self._start = start
        self._done_at = done_at
        self._value = start

    def reset(self) -> Count:
        self._value = self._start
        return Count(self._value)

    def step(self, action: Increment) -> Count:
        self._value += action.delta
        return Count(self._value, reward=float(self._value), done=self._value >= self._done_at)

    def snapshot(self) -> int:
        return self._value

    def restore(self, snapshot: int) -> None:
        self._value = snapshot

"""A walk along a line: the smallest task with something to learn."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from envweave.core.environment import Environment
from envweave.results import StepResult
from envweave.types import Action, Observation


@dataclass
class Move(Action):
    """Step left (-1) or right (1)."""

    move: Literal[-1, 1]


@dataclass
class Position(Observation):
    """Where the walker stands, where it should be, and how many steps it has made."""

    pos: int
    goal: int
    t: int


class LineWorldEnv(Environment[Move, Position]):
    """Start at 0 and reach the goal, which a coin puts at `size` or `-size`.

    Reaching it gives 1, each step before costs 0.01; after `max_steps` (four times the size) the episode is cut off
    with -1.
    """

    def __init__(self, *, size: int = 5, max_steps: int | None = None) -> None:
        if size < 1:
            raise ValueError(f"size is {size}, not a positive number")
        self._size = size
        self._max_steps = max_steps or 4 * size
        self._random = Random()
        self._pos = self._goal = self._t = 0

    def reset(self, *, seed: int | None = None) -> Position:
        if seed is not None:
            self._random.seed(seed)
        self._pos = self._t = 0
        self._goal = self._random.choice((-self._size, self._size))
        return self._look()

    def step(self, action: Move) -> StepResult[Position]:
        self._pos += action.move
        self._t += 1
        arrived = self._pos == self._goal
        late = not arrived and self._t >= self._max_steps
        reward = 1.0 if arrived else -1.0 if late else -0.01
        return StepResult(self._look(), reward, terminated=arrived, truncated=late)

    def snapshot(self) -> tuple[int, int, int, object]:
        return self._pos, self._goal, self._t, self._random.getstate()

    def restore(self, snapshot: tuple[int, int, int, object]) -> None:
        self._pos, self._goal, self._t, state = snapshot
        self._random.setstate(state)  # type: ignore[arg-type]

    def render(self) -> str:
        cells = ["·"] * (2 * self._size + 1)
        cells[self._goal + self._size] = "◎"
        if abs(self._pos) <= self._size:
            cells[self._pos + self._size] = "●"
        return "".join(cells)

    def _look(self) -> Position:
        return Position(self._pos, self._goal, self._t)

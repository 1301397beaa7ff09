"""Nim: two players take turns. Shows a turn-based environment with several agents."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from envweave.core.environment import Environment
from envweave.errors import InvalidActionError
from envweave.results import MultiAgentStepResult, ResetResult, StepResult
from envweave.types import Action, Observation


@dataclass
class Take(Action):
    """Take `count` stones from heap number `heap` (the first is 0)."""

    heap: Literal[0, 1, 2]
    count: Literal[1, 2, 3, 4, 5, 6, 7]


@dataclass
class Heaps(Observation):
    """The stones left in each heap. Whoever takes the last stone wins."""

    heaps: list[int]


class NimEnv(Environment[Take, Heaps]):
    """Up to three heaps of up to seven stones, drawn by the seed unless given.

    `alice` begins; the one who takes the last stone wins.
    """

    def __init__(self, *, heaps: list[int] | None = None) -> None:
        if heaps is not None and not (1 <= len(heaps) <= 3 and all(1 <= stones <= 7 for stones in heaps)):
            raise ValueError(f"heaps are {heaps}, not one to three numbers from 1 to 7")
        self._given = heaps
        self._random = Random()
        self._heaps: list[int] = []
        self.agents = ["alice", "bob"]
        self.to_act = "alice"

    def reset(self, *, seed: int | None = None) -> ResetResult[dict[str, Heaps]]:
        if seed is not None:
            self._random.seed(seed)
        self._heaps = list(self._given or (self._random.randint(1, 7) for _ in range(3)))
        self.to_act = "alice"
        return ResetResult(self._look())

    def step(self, actions: dict[str, Take]) -> MultiAgentStepResult[Heaps]:
        mover, take = self.to_act, actions[self.to_act]
        if take.heap >= len(self._heaps):
            raise InvalidActionError(f"{mover}: there is no heap {take.heap}", f"heaps: {self._heaps}")
        if take.count > self._heaps[take.heap]:
            raise InvalidActionError(
                f"{mover}: cannot take {take.count} from heap {take.heap}", f"heaps: {self._heaps}"
            )
        self._heaps[take.heap] -= take.count
        self.to_act = "bob" if mover == "alice" else "alice"
        won = not any(self._heaps)
        reward = {mover: 1.0, self.to_act: -1.0} if won else {"alice": 0.0, "bob": 0.0}
        return StepResult(self._look(), reward, {"__all__": won}, {"__all__": False})

    def render(self) -> str:
        return "\n".join("●" * stones or "-" for stones in self._heaps)

    def _look(self) -> dict[str, Heaps]:
        return {agent: Heaps(list(self._heaps)) for agent in self.agents}

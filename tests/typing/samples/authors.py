"""What an author of environments writes. Lines that end in `# error` must be refused, all others must pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, assert_type

from typing_extensions import override

import envweave as ew


@dataclass
class Move(ew.Action):
    delta: int


@dataclass
class Position(ew.Observation):
    at: int


class Bare(ew.Environment[Move, Position]):
    """`reset` without arguments."""

    def reset(self) -> Position:
        return Position(0)

    def step(self, action: Move) -> Position:
        return Position(action.delta, reward=1.0, done=True)


class Full(ew.Environment[Move, Position]):
    """All that there may be."""

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None, level: int = 1
    ) -> ew.ResetResult[Position]:
        return ew.ResetResult(Position(level))

    @override
    def step(self, action: Move) -> ew.StepResult[Position]:
        return ew.StepResult(Position(action.delta), 1.0, terminated=True)

    @property
    def state(self) -> ew.State:
        return ew.State(step_count=1)

    def close(self) -> None:
        pass


class GymStyle(ew.Environment[int, int]):
    """The tuples of Gymnasium."""

    def reset(self, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return action, 0.0, False, False, {}


class Waits(ew.AsyncEnvironment[Move, Position]):
    async def reset(self) -> Position:
        return Position(0)

    async def step(self, action: Move) -> Position:
        return Position(action.delta)


class Duel(ew.Environment[Move, Position]):
    """Several agents, with the types of one of them."""

    agents = ("ann", "bob")

    def reset(self) -> dict[str, Position]:
        return {agent: Position(0) for agent in self.agents}

    def step(self, actions: dict[str, Move]) -> ew.MultiAgentStepResult[Position]:
        seen = {agent: Position(move.delta) for agent, move in actions.items()}
        return ew.StepResult(seen, {"ann": 1.0, "bob": None}, {"__all__": True}, {"__all__": False})


class WholeDuel(ew.Environment[dict[str, Move], dict[str, Position]]):
    """Several agents, with the types of the dicts."""

    def reset(self) -> dict[str, Position]:
        return {"ann": Position(0)}

    def step(self, actions: Mapping[str, Move]) -> dict[str, Position]:
        return {agent: Position(move.delta) for agent, move in actions.items()}


A = TypeVar("A")
O = TypeVar("O")


class Base(ew.Environment[A, O]):
    """A generic class in between."""

    def reset(self) -> O:
        raise NotImplementedError

    def step(self, action: A) -> O:
        raise NotImplementedError


class Derived(Base[Move, Position]):
    pass


class Plain:
    """No base class at all."""

    def reset(self) -> int:
        return 0

    def step(self, action: int) -> int:
        return action


assert_type(ew.make(Bare), ew.EnvHandle[Move, Position])
assert_type(ew.make(Full), ew.EnvHandle[Move, Position])
assert_type(ew.make(GymStyle).step(1).obs, int)
assert_type(ew.make(Waits).step(Move(1)).obs, Position)
assert_type(ew.make(Derived), ew.EnvHandle[Move, Position])
ew.make(Plain).step(1).obs.anything
ew.adapt(Plain()).step("x").reward["ann"]
ew.make(Duel).step({"ann": Move(1)}).obs["ann"].at
ew.make(WholeDuel).step({"ann": Move(1)}).obs["ann"].at
ew.register("bare", Bare, kwargs={})
ew.make(Derived).step(Position(1))  # error
ew.make(GymStyle).step("1")  # error

"""What an author subclasses, or imitates: anything with `reset` and `step` is an environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")


class _Members(Generic[ActT, ObsT]):
    """What both kinds of environment may have besides `reset` and `step`.

    Other optional members are looked for by name and have no default here: `state` (property or
    method), `render()`, `respond(request_id, value)` for an environment that asks for tool calls,
    `snapshot()` with `restore(snapshot)`, `fork()` where a live copy is cheaper than those two, `tools` that are served
    over MCP, and for several agents `agents` and `to_act`.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    """False if two instances in one process would disturb each other."""

    OPERATOR_OPTIONS: ClassVar[frozenset[str]] = frozenset()
    """Arguments of the constructor that a client of a server may not choose, even where it may choose others."""

    MESSAGE_BYTES: ClassVar[int] = 0
    """How long a message to it may be on a server, where that is more than usual."""

    transform: Callable[[Any], Any] | None = None
    """Applied to each observation of a step before its reward is read."""

    applies_transform: ClassVar[bool] = False
    """True if `step` itself does that, so that it also holds for whoever calls it without a handle."""

    deadline: float | None = None
    """Seconds an agent has for an action; None is no limit."""


class Environment(_Members[ActT, ObsT], ABC):
    """One task, one episode at a time.

    `reset` takes any of `seed`, `options`, `episode_id` and options of its own, by keyword; with a seed it
    must be reproducible. `step` is never called before `reset` or after the end. Both return an
    observation, a `ResetResult`/`StepResult`, or a Gymnasium tuple.
    """

    @abstractmethod
    def reset(self, *, seed: int | None = None) -> Any:
        """Begin an episode."""

    @abstractmethod
    def step(self, action: ActT) -> Any:
        """Apply one action."""

    def close(self) -> None:
        """Give back what the environment holds. Called once."""


class AsyncEnvironment(_Members[ActT, ObsT], ABC):
    """`Environment` with awaitable methods. All of them run on one event loop."""

    @abstractmethod
    async def reset(self, *, seed: int | None = None) -> Any:
        """Begin an episode."""

    @abstractmethod
    async def step(self, action: ActT) -> Any:
        """Apply one action."""

    async def close(self) -> None:
        """Give back what the environment holds. Called once."""

"""What an author subclasses, or imitates: anything with `reset` and `step` is an environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from typing_extensions import TypeVar

from envweave.types import State

ActT = TypeVar("ActT", default=Any)
ObsT = TypeVar("ObsT", default=Any)


class DefaultState:
    """The `state` of an environment whose author has none: an empty `State`.

    Not a property, so that an author may write `self.state = …`. A handle counts steps and knows the episode, and
    returns its own `State` instead.
    """

    def __get__(self, env: Any, cls: type) -> Any:
        return self if env is None else State()


class EnvironmentBase(Generic[ActT, ObsT]):
    """The optional members of both kinds of environment.

    `state` may be a property, a method or an attribute. Other optional members are looked up by name and have no
    default here: `render()`, `respond(request_id, value)` for an environment that asks for tool calls, `snapshot()`
    with `restore(snapshot)`, `fork()` where a live copy is cheaper than those two, `tools` that are served over MCP,
    and for several agents `agents` and `to_act`. An environment without `snapshot` and `fork` is copied with
    `deepcopy`.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    """False if two instances in one process would disturb each other."""

    OPERATOR_OPTIONS: ClassVar[frozenset[str]] = frozenset()
    """Arguments of the constructor that a client of a server may not choose, even where it may choose others."""

    MESSAGE_BYTES: ClassVar[int] = 0
    """The maximum size of a message to it on a server, where that is more than the server's default."""

    transform: Callable[[Any], Any] | None = None
    """Applied to each observation of a step before its reward is read."""

    applies_transform: ClassVar[bool] = False
    """True if `step` applies the transform itself, so that it also works without a handle."""

    deadline: float | None = None
    """Seconds an agent has for an action; None means no limit."""

    if not TYPE_CHECKING:  # a declared type would forbid some of the forms in which authors have it
        state = DefaultState()


class Environment(EnvironmentBase[ActT, ObsT], ABC):
    """One task, one episode at a time.

    `reset` takes any of `seed`, `options`, `episode_id` and options of its own, by keyword; with a seed it must be
    reproducible. `step` takes an action, or with several agents a dict of actions by agent; it is never called before
    `reset` or after the end. Both return an observation, a `ResetResult`/`StepResult`, or a Gymnasium tuple.
    """

    # The signatures leave the parameters open, so that an override may take those that it needs.

    @abstractmethod
    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Begin an episode."""

    @abstractmethod
    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Apply one action."""

    def close(self) -> None:
        """Release what the environment holds. Called once."""


class AsyncEnvironment(EnvironmentBase[ActT, ObsT], ABC):
    """`Environment` with awaitable methods. All of them run on one event loop."""

    @abstractmethod
    async def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Begin an episode."""

    @abstractmethod
    async def step(self, *args: Any, **kwargs: Any) -> Any:
        """Apply one action."""

    async def close(self) -> None:
        """Release what the environment holds. Called once."""


class HasAgents(Protocol):
    """An environment with several agents, whose rewards and flags are dicts."""

    @property
    def agents(self) -> Any: ...


class HasStep(Protocol):
    """An environment that derives from nothing."""

    @property
    def reset(self) -> Callable[..., Any]: ...

    @property
    def step(self) -> Callable[..., Any]: ...

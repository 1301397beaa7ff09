"""What a user holds: `EnvHandle`, and the same for `await` behind `.aio`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from envweave.errors import UsageError
from envweave.requests import Request
from envweave.results import ResetResult, StepResult

ObsT = TypeVar("ObsT")
Transform = Callable[[Any], Any]


def _elsewhere(id: str) -> UsageError:
    return UsageError(
        f"the transform of {id} is the server's", "set it where the environment runs, or score results here"
    )


class EnvHandle(ABC, Generic[ObsT]):
    """One environment, wherever it runs. Use it in a `with`, or `close` it.

    A wrong call raises a `UsageError` and changes nothing. If the environment fails, `EnvError` is raised, the
    episode is over and unscored, and `reset` begins a new one.
    """

    __slots__ = ()

    id: str
    """The instance, e.g. `counter-v0#0`; the `env_id` of its requests."""

    @abstractmethod
    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[ObsT]:
        """Begin an episode. Environment options go in `options` or by name; an unknown one is refused."""

    @abstractmethod
    def step(self, action: Any) -> StepResult[ObsT]:
        """Apply one action, or with several agents a dict with one for each agent that must act."""

    @abstractmethod
    def respond(self, request_id: str, value: Any) -> StepResult[ObsT]:
        """Answer a `tool_call`; the result continues the step that asked."""

    @abstractmethod
    def state(self) -> Any:
        """Where the episode stands: the environment's own state, else a `State`."""

    @abstractmethod
    def render(self) -> Any:
        """What the environment shows of itself."""

    @abstractmethod
    def snapshot(self) -> Any:
        """The episode as it is, for `restore`, any number of times. Raises `UnsupportedError`."""

    @abstractmethod
    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot taken from this handle or another of the same environment."""

    @abstractmethod
    def fork(self) -> EnvHandle[ObsT]:
        """An independent handle on the same episode; this one goes on. Raises `UnsupportedError`."""

    @abstractmethod
    def close(self) -> tuple[Request, ...]:
        """Give everything back; twice is harmless. Returns the `episode_end` of an unfinished episode."""

    @abstractmethod
    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        """The JSON Schema of an action, or None if the environment takes anything."""

    @property
    @abstractmethod
    def pending(self) -> tuple[Request, ...]:
        """What the environment waits for: `need_action`s or `tool_call`s."""

    @property
    def transform(self) -> Transform | None:
        """What each observation of a step goes through before its reward is read; it may be set at any time.

        Raises `UsageError` if the environment is on a server.
        """
        raise _elsewhere(self.id)

    @transform.setter
    def transform(self, transform: Transform | None) -> None:
        raise _elsewhere(self.id)

    @property
    @abstractmethod
    def aio(self) -> AsyncEnvHandle[ObsT]:
        """The same environment for `await`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


class AsyncEnvHandle(ABC, Generic[ObsT]):
    """`EnvHandle` for `await`; same names, same meaning."""

    __slots__ = ()

    id: str

    @abstractmethod
    async def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[ObsT]: ...

    @abstractmethod
    async def step(self, action: Any) -> StepResult[ObsT]: ...

    @abstractmethod
    async def respond(self, request_id: str, value: Any) -> StepResult[ObsT]: ...

    @abstractmethod
    async def state(self) -> Any: ...

    @abstractmethod
    async def render(self) -> Any: ...

    @abstractmethod
    async def snapshot(self) -> Any: ...

    @abstractmethod
    async def restore(self, snapshot: Any) -> None: ...

    @abstractmethod
    async def fork(self) -> AsyncEnvHandle[ObsT]: ...

    @abstractmethod
    async def close(self) -> tuple[Request, ...]: ...

    @abstractmethod
    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None: ...

    @property
    @abstractmethod
    def pending(self) -> tuple[Request, ...]: ...

    @property
    def transform(self) -> Transform | None:
        raise _elsewhere(self.id)

    @transform.setter
    def transform(self, transform: Transform | None) -> None:
        raise _elsewhere(self.id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

"""The backend of another handle, for what sees its calls: middleware and recordings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from envweave.core.backend import Backend, EpisodeView

if TYPE_CHECKING:
    from envweave.core.handle import EnvHandle
    from envweave.core.selection import TaskList


class WrappedBackend(Backend):
    """Knows what the handle's backend knows. Subclasses implement `call` and `acall` with `perform`."""

    def __init__(self, handle: EnvHandle[Any, Any, Any, Any]) -> None:
        self.handle = handle

    @property
    def inner(self) -> Backend:
        """The backend that makes the calls."""
        return self.handle.backend  # a client replaces it when it connects

    def perform(self, kind: str, data: Any) -> Any:
        """Make the call."""
        return self.handle.close() if kind == "close" else self.inner.call(kind, data)

    async def perform_async(self, kind: str, data: Any) -> Any:
        return await (self.handle._close_async() if kind == "close" else self.inner.acall(kind, data))

    def connect(self) -> None:
        """Connect the wrapped handle, if it is one on a server."""
        self.handle.__enter__()

    async def connect_async(self) -> None:
        await self.handle._connect_async()

    def twin(self, fork: Backend) -> EnvHandle[Any, Any, Any, Any]:
        """A handle like the wrapped one, on a fork of its backend."""
        return self.handle._twin(fork)

    @property
    def id(self) -> str:  # type: ignore[override]
        return self.inner.id

    @property
    def env(self) -> Any:
        return self.inner.env

    @property
    def episode(self) -> EpisodeView:
        return self.inner.episode

    @property
    def multi_agent(self) -> bool:
        return self.inner.multi_agent

    def admit(self, action: Any) -> Any:
        return self.inner.admit(action)

    def check_reset(self, arguments: dict[str, Any]) -> None:
        self.inner.check_reset(arguments)

    def check_response(self, request_id: str) -> None:
        self.inner.check_response(request_id)

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        return self.handle.action_schema(agent_id)

    def observation_schema(self) -> dict[str, Any] | None:
        return self.inner.observation_schema()

    @property
    def tasks(self) -> TaskList | None:
        return self.handle.tasks

    @property
    def transform(self) -> Callable[[Any], Any] | None:
        return self.inner.transform

    @transform.setter
    def transform(self, transform: Callable[[Any], Any] | None) -> None:
        self.inner.transform = transform

"""The contract between a backend and what carries its calls to a server, over WebSocket or HTTP."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envweave.errors import BusyError, EnvWeaveError, ProtocolError, WaitTimeoutError


class PendingCall:
    """One call to a server. It outlives its waiter: after a timeout or a cancellation, wait again."""

    session: Any = None
    """The session it is sent on, which gives it its number."""
    number = 0
    repeated = False
    """The server did not understand it, and it was sent once more."""
    batch: Sequence[PendingCall] = ()
    """The calls of its batch, this one included: they are sent together, also the second time."""
    then: Callable[[PendingCall], None] | None = None
    """Called with the answer, for callers that do not await it."""
    answered = False
    data: Any = None
    error: EnvWeaveError | None = None
    _waiter: asyncio.Future[None] | None = None

    def __init__(self, kind: str, body: bytes = b"") -> None:
        """`body` is the JSON of its `data`; empty if it has none."""
        self.kind = kind
        self.body = body

    @property
    def awaited(self) -> bool:
        return self._waiter is not None or self.then is not None

    def answer(self, data: Any, error: EnvWeaveError | None = None) -> None:
        """Settle the call with the `data` of the reply, or with an error."""
        self.data, self.error, self.answered = data, error, True
        waiter, then = self._waiter, self.then
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if then is not None:
            then(self)

    async def wait(self, timeout: float | None) -> None:
        """Return when the answer is there. Raises `WaitTimeoutError`."""
        if self.answered:
            return
        if self.awaited:
            raise BusyError(f"another task waits for this {self.kind}", "one call at a time on one environment")
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, _expire, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        if not self.answered:
            raise self.late(timeout)

    def late(self, timeout: float | None) -> WaitTimeoutError:
        return WaitTimeoutError(
            f"no answer to {self.kind} within {timeout:g} s",
            "it is not lost: env.last() waits for it again; message_timeout_s=… gives it more time",
        )

    def result(self) -> Any:
        """The `data` of the answer; an error is raised."""
        if self.error is not None:
            raise self.error
        return self.data


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@dataclass(frozen=True, slots=True)
class Opened:
    """What the server said when the session was opened."""

    session_id: str
    env_id: str
    name: str = ""
    last_id: int = 0
    """The last call that reached the server."""
    resume_within: float = 0.0
    multi_agent: bool = False
    action_schema: Any = None
    observation_schema: Any = None
    state_schema: Any = None
    num_tasks: int | None = None
    """How many tasks the environment has; None if it has none."""
    shared: bool = False
    """Other clients use the same session: the server has only one environment."""

    @classmethod
    def from_data(cls, data: Any) -> Opened:
        """Keys that this version does not know are left out."""
        if not isinstance(data, Mapping) or not {"session_id", "env_id"} <= data.keys():
            raise ProtocolError(f"the server opened a session without an ID: {data!r:.200}")
        return cls(**{key: data[key] for key in cls.__slots__ if data.get(key) is not None})


class RemoteSession(ABC):
    """One environment on a server. One call at a time, on one event loop."""

    opened: Opened
    server: str
    """The address, by which snapshots are told apart."""
    home: asyncio.AbstractEventLoop
    """The loop that has the connection."""
    thread: int
    """The thread that this loop runs on."""

    @abstractmethod
    def send(self, call: PendingCall) -> None:
        """Number the call and see that it is answered, perhaps with an error. Raises `SessionLostError`."""

    @abstractmethod
    async def move(self) -> None:
        """Continue on the running loop, because `home` does not run any more."""

    @abstractmethod
    async def renew(self) -> RemoteSession:
        """A new session of the same kind, in place of this one that is lost."""

    @abstractmethod
    async def join(self, session_id: str, env_id: str) -> RemoteSession:
        """Open a session that exists on the server: a fork."""

    @abstractmethod
    async def leave(self) -> None:
        """Forget the session, which the server has closed or lost; the last one closes the connection."""

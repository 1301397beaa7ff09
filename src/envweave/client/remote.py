"""The handle on an environment on a server: the same results and the same errors as in this process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from envweave.client.call import Call
from envweave.client.episode import Episode
from envweave.client.packing import packed
from envweave.client.session import Session
from envweave.core.handle import AsyncEnvHandle
from envweave.core.loop import await_on
from envweave.errors import (
    BusyError,
    ClosedError,
    EnvWeaveError,
    InvalidActionError,
    ProtocolError,
    SessionLostError,
    TransportError,
    UsageError,
    WaitTimeoutError,
)
from envweave.requests import EpisodeEnd, NeedAction, Request
from envweave.results import ResetResult, StepResult
from envweave.wire.faults import requests_from_data

T = TypeVar("T")

CLOSE_TIMEOUT = 5.0
"""Seconds that a server has to close an environment before it is left to do so alone."""


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """The name of an episode at rest on a server; good for as long as the session that took it lives."""

    server: str
    name: str


class RemoteEnv(AsyncEnvHandle[Any]):
    """Calls are numbered, so that each is run once, whatever the connection does.

    A call that times out or is cancelled goes on; `last` waits for its answer, and until that was received nothing
    but `last`, `close` and, once it is there, `reset` is possible. If the server has lost the session, calls raise
    `SessionLostError`, the first of them with the `episode_end`; `reset` then begins anew in a new session.
    """

    def __init__(self, session: Session, *, message_timeout_s: float | None = 60.0) -> None:
        self.id = session.opened.env_id
        self._session = session
        self._timeout = message_timeout_s
        self._call: tuple[Call, Callable[[Any], Any]] | None = None
        """The call whose answer nobody has received yet, and how to read it."""
        self._episode = Episode(self.id)
        self._owed: tuple[Request, ...] = ()
        """Ends that nobody has received; they come with the next reset or close."""
        self._lost = False
        self._closed = False
        self._pid = os.getpid()

    @property
    def home(self) -> asyncio.AbstractEventLoop:
        return self._session.home

    @property
    def multi_agent(self) -> bool:
        return self._session.opened.multi_agent

    # The calls of a handle.

    async def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[Any]:
        given = {"seed": seed, "options": options, "episode_id": episode_id}
        body = packed({**{key: value for key, value in given.items() if value is not None}, **own}, "reset")
        self._drop_unread()
        try:
            result = await self._ask("reset", body, self._read_reset)
        except SessionLostError as error:  # a reset needs nothing of the old session: once more, on a new one
            self._owed += error.requests
            result = await self._ask("reset", body, self._read_reset)
        self._episode.id = episode_id
        return result

    async def step(self, action: Any) -> StepResult[Any]:
        return await self._ask("step", packed(action, "action", InvalidActionError), self._read_step)

    async def respond(self, request_id: str, value: Any) -> StepResult[Any]:
        body = packed({"request_id": request_id, "value": value}, "response")
        return await self._ask("respond", body, self._read_step)

    async def state(self) -> Any:
        return await self._ask("state", b"", _as_it_is)

    async def render(self) -> Any:
        return await self._ask("render", b"", _as_it_is)

    async def snapshot(self) -> RemoteSnapshot:
        data = await self._ask("snapshot", b"", _mapping)
        return RemoteSnapshot(self._session.server, str(data.get("snapshot")))

    async def restore(self, snapshot: RemoteSnapshot) -> None:
        if not isinstance(snapshot, RemoteSnapshot):
            raise UsageError(f"a {type(snapshot).__name__} is not a snapshot", "pass what env.snapshot() gave")
        if snapshot.server != self._session.server:
            raise UsageError(f"a snapshot of {snapshot.server}, not of {self._session.server}")
        await self._ask("restore", packed({"snapshot": snapshot.name}, "snapshot"), self._read_restored)

    async def fork(self) -> RemoteEnv:
        data = await self._ask("fork", b"", _mapping)
        name, id = str(data.get("session_id")), str(data.get("env_id"))
        session = await self._at_home(lambda: self._session.join(name, id))
        twin = RemoteEnv(session, message_timeout_s=self._timeout)
        twin._episode.id = self._episode.id
        twin._episode.join(data)
        return twin

    async def last(self) -> Any:
        """Wait again for the answer to a call that timed out or was cancelled."""
        return await self._at_home(self._receive)

    async def close(self) -> tuple[Request, ...]:
        if self._closed or self._pid != os.getpid():
            return ()
        self._closed = True
        return await self._at_home(self._close)

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        for request in self._episode.pending:
            if isinstance(request, NeedAction) and request.agent_id == agent_id:
                return request.action_schema
        schema: dict[str, Any] | None = self._session.opened.action_schema
        return schema

    @property
    def pending(self) -> tuple[Request, ...]:
        return self._episode.pending

    # The way of a call.

    async def _ask(self, kind: str, body: bytes, read: Callable[[Any], T]) -> T:
        self._check_free()
        if self._session.home is not asyncio.get_running_loop():
            return await self._at_home(lambda: self._ask(kind, body, read))
        call = Call(kind, body)
        if self._lost and kind == "reset":
            self._call = (call, read)
            try:
                await self._renew()
            finally:
                self._call = None
        self._begin(call, read)
        return await self._receive()  # type: ignore[no-any-return]

    def _begin(self, call: Call, read: Callable[[Any], Any]) -> None:
        """Send a call, on the loop that has the connection."""
        self._check_free()
        self._call = (call, read)
        try:
            self._session.send(call)
        except EnvWeaveError as error:
            call.fail(error)

    def step_from_thread(self, action: Any) -> StepResult[Any]:
        """`step` for a thread that waits while another one has the loop: without a task, and two turns less."""
        call = Call("step", packed(action, "action", InvalidActionError))
        self._check_free()
        answered = threading.Lock()
        answered.acquire()
        call.then = lambda _: answered.release()
        self.home.call_soon_threadsafe(self._begin_or_fail, call)
        try:
            if not answered.acquire(timeout=-1 if self._timeout is None else self._timeout):
                raise call.late(self._timeout)
        finally:
            call.then = None
        if self._call is not None and self._call[0] is call:
            self._call = None
        return self._taken(call, self._read_step)  # type: ignore[no-any-return]

    def _begin_or_fail(self, call: Call) -> None:
        try:
            self._begin(call, self._read_step)
        except EnvWeaveError as error:
            call.fail(error)

    async def _receive(self) -> Any:
        if self._call is None:
            raise UsageError("no answer is outstanding", "last() is for after a WaitTimeoutError")
        call, read = self._call
        await call.wait(self._timeout)
        self._call = None
        return self._taken(call, read)

    def _taken(self, call: Call, read: Callable[[Any], Any]) -> Any:
        """Read an answer; what it says about the episode counts even if nobody wants the result."""
        try:
            return read(call.result())
        except SessionLostError as error:
            error.requests = self._bury(error)
            raise
        except EnvWeaveError as error:
            if call.kind in ("reset", "step", "respond") and not isinstance(error, UsageError | TransportError):
                self._episode.pending = ()
            raise

    def _check_free(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.id} is closed", "make a new one")
        if self._pid != os.getpid():
            raise ClosedError(f"{self.id} belongs to another process", "connect after the fork")
        if self._call is not None:
            call, _ = self._call
            if call.awaited:
                raise BusyError(f"a call on {self.id} is still running", "one call at a time on one environment")
            raise BusyError(f"a {call.kind} on {self.id} has no answer yet", "env.last() gives its answer")

    async def _at_home(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run on the loop that has the connection, or on this one if that has stopped."""
        home = self._session.home
        if home is not asyncio.get_running_loop() and not home.is_running():
            await self._session.move()
            home = self._session.home
        return await await_on(home, work())

    # What an answer means.

    def _read_reset(self, data: Any) -> ResetResult[Any]:
        result = self._episode.read_reset(data)
        if self._owed:
            owed, self._owed = self._owed, ()
            result.requests = (*owed, *result.requests)
        return result

    def _read_step(self, data: Any) -> StepResult[Any]:
        return self._episode.read_step(data)

    def _read_restored(self, data: Any) -> None:
        self._episode.read_restored(_mapping(data))

    # The end of a call, a session, a handle.

    def _drop_unread(self) -> None:
        """Give up an answer that is there and that nobody came for; its ends are owed."""
        if self._call is None or not self._call[0].answered or self._call[0].awaited:
            return
        (call, read), self._call = self._call, None
        try:
            requests = getattr(self._taken(call, read), "requests", ())
        except EnvWeaveError as error:
            requests = error.requests
        self._owed += tuple(request for request in requests if isinstance(request, EpisodeEnd))

    def _bury(self, error: SessionLostError) -> tuple[Request, ...]:
        """The session is gone: the end of its episode, once."""
        self._lost = True
        return self._episode.end("infra_error", {"error": error.to_data()})

    async def _renew(self) -> None:
        self._session = await self._session.renew()
        self.id, self._lost = self._session.opened.env_id, False
        self._episode = Episode(self.id)

    async def _close(self) -> tuple[Request, ...]:
        self._drop_unread()
        if self._call is not None:
            self._call[0].fail(ClosedError(f"{self.id} was closed while a call on it was running"))
        call = Call("close")
        owed, self._owed = self._owed, ()
        try:
            self._session.send(call)
            await call.wait(CLOSE_TIMEOUT)
            farewell = requests_from_data(_mapping(call.result()).get("requests", ()))
        except (TransportError, WaitTimeoutError):  # nobody is there to say it
            farewell = self._episode.end("closed", {})
        except EnvWeaveError as error:
            error.requests = (*owed, *error.requests)
            raise
        finally:
            self._episode.pending = ()
            await self._session.leave()
        return (*owed, *farewell)


def _as_it_is(data: Any) -> Any:
    return data


def _mapping(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ProtocolError(f"the server replied with what is no object: {data!r:.200}")
    return data

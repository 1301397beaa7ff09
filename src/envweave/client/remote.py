"""The backend of an environment on a server: the same results and the same errors as in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from threading import Lock, get_ident
from typing import Any, NoReturn, TypeVar

from envweave.client.codec import Codec, to_body
from envweave.client.session import PendingCall, RemoteSession
from envweave.core.backend import AsyncBackend
from envweave.core.loop import await_on
from envweave.core.selection import TaskList
from envweave.core.task_listing import TaskListing
from envweave.errors import (
    BusyError,
    ClosedError,
    EnvWeaveError,
    ProtocolError,
    ResetNeededError,
    SessionLostError,
    TransportError,
    UsageError,
    WaitTimeoutError,
    is_unreachable,
)
from envweave.requests import AutoresetReady, EndReason, EpisodeEnd, NeedAction, Request, ToolCall
from envweave.results import ResetResult, StepResult
from envweave.wire.faults import requests_from_data
from envweave.wire.results import not_a_result, open_requests

T = TypeVar("T")

CLOSE_TIMEOUT = 5.0
"""Seconds that a server has to close an environment before the client stops waiting for it."""

SCORED = ("reset", "step", "respond")
"""Calls whose failure ends the episode."""


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """The name of a snapshot on a server; valid for as long as the session that took it."""

    server: str
    name: str


class RemoteEpisode:
    """What is known here of an episode on a server. Each reply may leave out the requests that the one before had."""

    __slots__ = (
        "_known", "env_id", "episode_id", "last_obs", "multi_agent", "pending", "step_count", "task_id", "undelivered",
    )  # fmt: skip

    due = None
    """Deadlines are enforced by the server."""

    def __init__(self, env_id: str, *, multi_agent: bool) -> None:
        self.env_id = env_id
        self.multi_agent = multi_agent
        self.episode_id: str | None = None
        self.task_id: Any = None
        """As the first info of the episode names the task."""
        self.step_count = 0
        self.last_obs: Any = None
        self.pending: tuple[Request, ...] = ()
        """What the environment waits for; empty between two episodes."""
        self.undelivered: tuple[Request, ...] = ()
        """Ends whose receiver is gone; they come with the next reset or close."""
        self._known: tuple[Request, ...] = ()

    def read_reset(self, data: Any, codec: Codec) -> ResetResult[Any]:
        """The result of a reset. Raises `ProtocolError`."""
        if not isinstance(data, dict) or "observation" not in data:
            raise not_a_result(data)
        requests = requests_from_data(data["requests"]) if "requests" in data else self._known
        self._note(data, requests)
        result = ResetResult(data["observation"], _info(data), requests)
        codec.read(result)
        self.episode_id, self.step_count, self.last_obs = data.get("episode_id"), 0, result.observation
        self.task_id = result.info.get("task_id")
        if self.undelivered:
            result.requests = (*self.take_undelivered(), *requests)
        return result

    def read_step(self, data: Any, codec: Codec, steps: int) -> StepResult[Any]:
        """The result of a step or a response. Raises `ProtocolError`."""
        if not isinstance(data, dict) or "observation" not in data:
            raise not_a_result(data)
        get, requests = data.get, self._known
        changed = "requests" in data or "pending" in data
        if changed:
            requests = requests_from_data(data["requests"]) if "requests" in data else requests
            self._note(data, requests)
        result: StepResult[Any] = StepResult(
            data["observation"],
            get("reward"),
            get("terminated", False),
            get("truncated", False),
            _info(data),
            requests,
        )
        if codec.observation is not None and not changed:  # nearly always
            result.observation = codec.observation(result.observation)
        else:
            codec.read(result)
        self.last_obs = result.observation
        self.step_count += steps
        if changed:
            self._note_next_episode(result.requests)
        return result

    def _note_next_episode(self, requests: tuple[Request, ...]) -> None:
        for request in requests:
            if isinstance(request, AutoresetReady):
                self.episode_id, self.step_count, self.last_obs = request.episode_id, 0, request.initial_obs
                self.task_id = request.initial_info.get("task_id")

    def read_restored(self, data: Mapping[str, Any]) -> None:
        """Another episode, or another point of this one; the next result has all of its requests."""
        self._note(data, ())
        self.episode_id = data.get("episode_id", self.episode_id)
        self.task_id = data.get("task_id")

    def _note(self, data: Mapping[str, Any], requests: tuple[Request, ...]) -> None:
        self._known = requests
        self.pending = requests_from_data(data["pending"]) if "pending" in data else open_requests(requests)

    def end(self, reason: EndReason, error: EnvWeaveError | None = None) -> tuple[Request, ...]:
        """The end that the server cannot deliver any more, once."""
        if not self.pending:
            return ()
        self.pending = ()
        info = self._with_task_id({} if error is None else {"error": error.to_data()})
        return (EpisodeEnd(env_id=self.env_id, reason=reason, final_info=info, episode_id=self.episode_id),)

    def named(self, requests: tuple[Request, ...]) -> tuple[Request, ...]:
        """The requests of an error. A server that lost the environment does not know its task any more."""
        return tuple(
            replace(request, final_info=self._with_task_id(request.final_info))
            if isinstance(request, EpisodeEnd) and request.episode_id == self.episode_id
            else request
            for request in requests
        )

    def _with_task_id(self, info: dict[str, Any]) -> dict[str, Any]:
        return info if self.task_id is None else {**info, "task_id": self.task_id}

    def keep_ends(self, requests: tuple[Request, ...]) -> None:
        self.undelivered += tuple(request for request in requests if isinstance(request, EpisodeEnd))

    def take_undelivered(self) -> tuple[Request, ...]:
        undelivered, self.undelivered = self.undelivered, ()
        return undelivered

    def restart_clock(self) -> None:
        """Deadlines are enforced by the server."""

    def unscored(self, error: EnvWeaveError, *, over: bool) -> StepResult[Any]:
        ends = (error.requests or self.end("infra_error", error)) if over else self.pending
        info = {"error": error.to_data()}
        info = self._with_task_id(info) if over else info
        if not self.multi_agent or not isinstance(self.last_obs, Mapping):
            return StepResult(self.last_obs, None, False, over, info, ends)
        agents = list(self.last_obs)
        flags = dict.fromkeys((*agents, "__all__"), over)
        rewards: Any = dict.fromkeys(agents, None)
        terminated: Any = dict.fromkeys(flags, False)
        truncated: Any = flags
        return StepResult(self.last_obs, rewards, terminated, truncated, info, ends)


class RemoteBackend(AsyncBackend):
    """Calls are numbered, so that each is run once, whatever the connection does.

    A call that times out or is cancelled goes on; `last` waits for its answer, and until that was received only
    `last`, `close` and, once it is there, `reset` are possible. If the server has lost the session, calls raise
    `SessionLostError`, the first of them with the `episode_end`; `reset` then begins anew in a new session, unless
    `renews` is false.
    """

    def __init__(
        self, session: RemoteSession, codec: Codec, *, message_timeout_s: float | None = 60.0, renews: bool = True
    ) -> None:
        self.id = session.opened.env_id
        self.session = session
        self._episode = RemoteEpisode(self.id, multi_agent=session.opened.multi_agent)
        self.codec = codec
        self.message_timeout_s = message_timeout_s
        self._renews = renews
        self._unread: tuple[PendingCall, Callable[[Any], Any]] | None = None
        """The call whose answer was not received yet, and how to read it."""
        self._acting: tuple[Request, ...] = ()
        """Requests among which one for an action was found."""
        self._tasks: TaskListing | None = None
        self._lost = False
        self._closed = False
        self._pid = os.getpid()

    @property
    def episode(self) -> RemoteEpisode:
        return self._episode

    @property
    def multi_agent(self) -> bool:
        return self._episode.multi_agent

    @property
    def home(self) -> asyncio.AbstractEventLoop:
        return self.session.home

    # The calls.

    async def acall(self, kind: str, data: Any = None) -> Any:
        match kind:
            case "step":
                return await self._ask("step", self.codec.write_action(data), self._read_step)
            case "advance":
                return await self._ask("step", data, self._read_step)
            case "reset":
                return await self._reset(data or {})
            case "respond":
                return await self._ask("respond", to_body(data, "response"), self._read_response)
            case "state":
                return await self._ask("state", b"", self.codec.read_state)
            case "render":
                return await self._ask("render", b"", _as_it_is)
            case "tasks":
                return await self._ask("tasks", to_body(data or {}, "tasks"), _mapping)
            case "snapshot":
                taken = await self._ask("snapshot", b"", _mapping)
                return RemoteSnapshot(self.session.server, str(taken.get("snapshot")))
            case "restore":
                return await self._restore(data)
            case "fork":
                return await self._fork()
            case "last":
                return await self._at_home(self._receive)
            case "close":
                return await self._close()
            case _:
                raise UsageError(f"a server does not take the call {kind!r}")

    def call(self, kind: str, data: Any = None) -> Any:
        """A step waits in this thread while another one has the loop: without a task, and two turns less."""
        home = self.session.home
        if (kind != "step" and kind != "advance") or get_ident() == self.session.thread or not home.is_running():
            return super().call(kind, data)
        body = self.codec.write_action(data) if kind == "step" else data
        self._check_free()
        call = PendingCall("step", body)
        answered = Lock()
        answered.acquire()
        call.then = lambda _: answered.release()
        home.call_soon_threadsafe(self._begin, call, self._read_step)
        try:
            if not answered.acquire(timeout=-1 if self.message_timeout_s is None else self.message_timeout_s):
                raise call.late(self.message_timeout_s)
        finally:
            call.then = None
        if self._unread is not None and self._unread[0] is call:
            self._unread = None
        return self._taken(call, self._read_step)

    def admit(self, action: Any) -> bytes:
        pending = self._episode.pending
        if pending is not self._acting:
            if not any(isinstance(request, NeedAction) for request in pending):
                self._refuse()
            self._acting = pending
        return self.codec.write_action(action)

    def _refuse(self) -> NoReturn:
        if self._episode.pending:
            waiting = next(request.request_id for request in self._episode.pending if isinstance(request, ToolCall))
            raise UsageError(f"tool call {waiting!r} is waiting for its reply", f"env.respond({waiting!r}, value)")
        known = self._episode.episode_id is not None
        state = f"the episode of {self.id} is over" if known else f"{self.id} was not reset yet"
        raise ResetNeededError(state, "call env.reset()")

    def check_reset(self, arguments: dict[str, Any]) -> None:
        to_body(arguments, "reset")

    def check_response(self, request_id: str) -> None:
        calls = [request.request_id for request in self._episode.pending if isinstance(request, ToolCall)]
        if request_id not in calls:
            raise UsageError(f"no open request {request_id!r}", f"open requests: {', '.join(calls) or 'none'}")

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        for request in self._episode.pending:
            if isinstance(request, NeedAction) and request.agent_id == agent_id:
                return request.action_schema
        schema: dict[str, Any] | None = self.session.opened.action_schema
        return schema

    def observation_schema(self) -> dict[str, Any] | None:
        schema: dict[str, Any] | None = self.session.opened.observation_schema
        return schema

    @property
    def tasks(self) -> TaskList | None:
        if self._tasks is None and self.session.opened.num_tasks is not None:
            self._tasks = TaskListing(self)
        return self._tasks

    async def _reset(self, arguments: dict[str, Any]) -> Any:
        body = to_body(arguments, "reset")
        self._drop_unread()
        try:
            return await self._ask("reset", body, self._read_reset)
        except SessionLostError as error:  # a reset needs nothing of the old session: once more, on a new one
            if not self._renews or is_unreachable(error):
                raise
            self._episode.keep_ends(error.requests)
            return await self._ask("reset", body, self._read_reset)

    async def _restore(self, snapshot: Any) -> None:
        if not isinstance(snapshot, RemoteSnapshot):
            raise UsageError(f"a {type(snapshot).__name__} is not a snapshot", "pass what env.snapshot() gave")
        if snapshot.server != self.session.server:
            raise UsageError(f"a snapshot of {snapshot.server}, not of {self.session.server}")
        await self._ask("restore", to_body({"snapshot": snapshot.name}, "snapshot"), self._read_restored)

    async def _fork(self) -> RemoteBackend:
        data = await self._ask("fork", b"", _mapping)
        name, id = str(data.get("session_id")), str(data.get("env_id"))
        session = await self._at_home(lambda: self.session.join(name, id))
        twin = RemoteBackend(session, self.codec, message_timeout_s=self.message_timeout_s)
        twin.episode.episode_id, twin.episode.last_obs = self._episode.episode_id, self._episode.last_obs
        twin.episode.step_count, twin.episode.task_id = self._episode.step_count, self._episode.task_id
        twin.episode.pending = requests_from_data(data.get("pending", ()))
        return twin

    # The path of a call.

    async def _ask(self, kind: str, body: bytes, read: Callable[[Any], T]) -> T:
        self._check_free()
        if self.session.home is not asyncio.get_running_loop():
            return await self._at_home(lambda: self._ask(kind, body, read))
        call = PendingCall(kind, body)
        if self._lost and self._renews and kind == "reset":
            self._unread = (call, read)
            try:
                await self._renew()
            finally:
                self._unread = None
        self._begin(call, read)
        return await self._receive()  # type: ignore[no-any-return]

    def _begin(self, call: PendingCall, read: Callable[[Any], Any]) -> None:
        """Send a call, on the loop that has the connection. A failure is the call's answer."""
        try:
            self._check_free()
            self._unread = (call, read)
            self.session.send(call)
        except EnvWeaveError as error:
            call.answer(None, error)

    async def _receive(self) -> Any:
        if self._unread is None:
            raise UsageError("no answer is outstanding", "last() is for after a WaitTimeoutError")
        call, read = self._unread
        await call.wait(self.message_timeout_s)
        if self._unread is not None and self._unread[0] is call:
            self._unread = None
        return self._taken(call, read)

    def _taken(self, call: PendingCall, read: Callable[[Any], Any]) -> Any:
        """Read an answer; what it says about the episode counts even if the result is dropped."""
        try:
            return read(call.result())
        except EnvWeaveError as error:
            self._note_failure(call, error)
            raise

    def _note_failure(self, call: PendingCall, error: EnvWeaveError) -> None:
        if isinstance(error, SessionLostError):
            self._lost = True
            error.requests = self._episode.end("infra_error", error)
        elif call.kind in SCORED and not isinstance(error, UsageError | TransportError):
            self._episode.pending = ()
            if call.kind != "reset":
                error.requests = self._episode.named(error.requests)

    def _check_free(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.id} is closed", "make a new one")
        if self._pid != os.getpid():
            raise ClosedError(f"{self.id} belongs to another process", "connect after the fork")
        if self._unread is not None:
            call, _ = self._unread
            if call.awaited:
                raise BusyError(f"a call on {self.id} is still running", "one call at a time on one environment")
            raise BusyError(f"a {call.kind} on {self.id} has no answer yet", "env.last() gives its answer")

    async def _at_home(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run on the loop that has the connection, or on this one if that has stopped."""
        home = self.session.home
        if home is not asyncio.get_running_loop() and not home.is_running():
            await self.session.move()
            home = self.session.home
        return await await_on(home, work())

    # What an answer means.

    def _read_reset(self, data: Any) -> ResetResult[Any]:
        return self._episode.read_reset(data, self.codec)

    def _read_step(self, data: Any) -> StepResult[Any]:
        return self._episode.read_step(data, self.codec, 1)

    def _read_response(self, data: Any) -> StepResult[Any]:
        return self._episode.read_step(data, self.codec, 0)

    def read_step(self, call: PendingCall) -> StepResult[Any]:
        """The result of a step that was sent with others. Raises what the server raised."""
        try:
            return self._episode.read_step(call.result(), self.codec, 1)
        except EnvWeaveError as error:
            self._note_failure(call, error)
            raise

    def _read_restored(self, data: Any) -> None:
        self._episode.read_restored(_mapping(data))

    # The end of a call, a session, a backend.

    def _drop_unread(self) -> None:
        """Give up an answer that is there and was not received; its ends are kept."""
        if self._unread is None or not self._unread[0].answered or self._unread[0].awaited:
            return
        (call, read), self._unread = self._unread, None
        try:
            requests = getattr(self._taken(call, read), "requests", ())
        except EnvWeaveError as error:
            requests = error.requests
        self._episode.keep_ends(requests)

    async def _renew(self) -> None:
        old = self._episode
        self.session = await self.session.renew()
        self.id, self._lost, self._tasks = self.session.opened.env_id, False, None
        self._episode = RemoteEpisode(self.id, multi_agent=old.multi_agent)
        self._episode.undelivered = old.undelivered

    async def _close(self) -> tuple[Request, ...]:
        if self._closed or self._pid != os.getpid():
            return ()
        self._closed = True
        return await self._at_home(self._close_session)

    async def _close_session(self) -> tuple[Request, ...]:
        self._drop_unread()
        if self._unread is not None:
            self._unread[0].answer(None, ClosedError(f"{self.id} was closed while a call on it was running"))
        call = PendingCall("close")
        ends = self._episode.take_undelivered()
        try:
            self.session.send(call)
            await call.wait(CLOSE_TIMEOUT)
            last = requests_from_data(_mapping(call.result()).get("requests", ()))
        except (TransportError, WaitTimeoutError):  # the server does not answer, so the end is said here
            last = self._episode.end("closed")
        except EnvWeaveError as error:
            error.requests = (*ends, *error.requests)
            raise
        finally:
            self._episode.pending = ()
            await self.session.leave()
        return (*ends, *last)


def _info(data: Mapping[str, Any]) -> dict[str, Any]:
    """The info of a result; one that is left out is the observation's metadata."""
    info = data.get("info")
    if info is None and data["observation"].__class__ is dict:
        info = data["observation"].get("metadata")
    return info if isinstance(info, dict) else {}


def _as_it_is(data: Any) -> Any:
    return data


def _mapping(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ProtocolError(f"the server's reply is not an object: {data!r:.200}")
    return data

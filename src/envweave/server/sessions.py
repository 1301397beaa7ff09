"""All sessions of a server: room for so many, each with a lease, each torn down in bounded time."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from dataclasses import replace
from functools import partial
from typing import Any

from envweave.errors import CapacityError, EnvError, EnvWeaveError, SessionLostError, UnsupportedError, UsageError
from envweave.server.building import Builder
from envweave.server.express import Express
from envweave.server.host import Form, Reply, fault
from envweave.server.metrics import Metrics
from envweave.server.offer import Offer, check_settings
from envweave.server.runners import Runner
from envweave.server.session import Opening, Receiver, Session, give
from envweave.server.settings import Settings
from envweave.server.shelf import SessionShelf
from envweave.server.threads import Threads
from envweave.wire.codec import decode, encode
from envweave.wire.protocol import BRANCHING, ERROR

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two looks at all sessions, at most."""

RELEASED = Reply("closed", b'{"requests":[]}')
"""For a client that leaves a session which others use."""


class Sessions:
    """Opens, finds and closes sessions. For one event loop; `start` comes first and `stop` last."""

    def __init__(self, offer: Offer, settings: Settings, metrics: Metrics) -> None:
        check_settings(offer, settings.isolation, settings.max_sessions)
        self.offer = offer
        self.settings = settings
        self.metrics = metrics
        self._open: dict[str, Session] = {}
        self._keys: dict[str, Session] = {}
        self._building = 0
        self._extra = 0
        """Open sessions that take no place."""
        self._snapshots: dict[str, Any] = {}
        self._default: asyncio.Task[Session] | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._closings: set[asyncio.Task[Any]] = set()
        self._at_the_door: list[asyncio.Future[None]] = []
        self.loop: asyncio.AbstractEventLoop
        self.threads: Threads
        self.express: Express
        self._builder: Builder

    def start(self) -> None:
        """Begin to work, on the running loop. A second call on the same loop is harmless."""
        loop = asyncio.get_running_loop()
        if self._sweeper is not None and self.loop is loop:
            return
        self.loop = loop
        self.threads = Threads(loop, self.settings.max_threads)
        self.express = Express(loop, self.settings.max_message_bytes)
        self._builder = Builder(self.offer, self.settings, loop, self.threads)
        self._sweeper = loop.create_task(self._sweep())
        self.metrics.gauges = {"sessions": lambda: len(self._open), "threads": lambda: self.threads.count}

    async def stop(self) -> None:
        """Close every session; no longer than the teardown of one."""
        if self._sweeper is None:
            return
        self._sweeper.cancel()
        for session in list(self._open.values()):
            self.close_soon(session, "shutdown")
        if self._closings:
            await asyncio.wait(self._closings, timeout=self.settings.close_timeout + 1.0)
        await self._close_instance()
        self._builder.close()
        self.express.end()
        self.threads.end()
        self._sweeper = None

    async def _close_instance(self) -> None:
        close = getattr(self.offer.instance, "close", None)
        if close is not None:
            try:
                answer = await asyncio.wait_for(self.threads.run(close), self.settings.close_timeout)
                if inspect.isawaitable(answer):
                    await asyncio.wait_for(answer, self.settings.close_timeout)
            except Exception:  # somebody's close may raise anything; the server ends all the same
                log.exception("the environment did not close")

    # Room.

    @property
    def most(self) -> int:
        if self.settings.max_sessions is not None:
            return self.settings.max_sessions
        return 1024 if self.offer.concurrent or self.settings.isolation == "process" else 1

    @property
    def count(self) -> int:
        """The places that are taken. The default session takes one only if it cannot live beside others."""
        return len(self._open) + self._building - self._extra

    async def _take_room(self) -> None:
        """Raises `CapacityError`. Whoever comes while another leaves waits until it has left."""
        if self.count >= self.most:
            self._make_way()
        while self.count >= self.most and any(session.leaving for session in self._open.values()):
            left = self.loop.create_future()
            self._at_the_door.append(left)
            await left
        if self.count >= self.most:
            self.metrics.refused += 1
            raise self._full()
        self._building += 1

    def _full(self) -> CapacityError:
        message = f"server at capacity: {self.count}/{self.most} sessions active"
        if self.offer.instance is not None:
            hint = "it was given an instance: pass the class or a function to create_app, or share it by HTTPEnvClient"
        elif not self.offer.concurrent and self.settings.isolation == "thread":
            hint = "close the other one, or start the server with --isolation process"
        else:
            hint = "close some, wait, or start the server with a higher --max-sessions"
        return CapacityError(message, hint)

    def _make_way(self) -> None:
        """The default session belongs to nobody in particular: it gives its place to a client, unless it is in the
        middle of an episode and was used not long ago.
        """
        task = self._default
        if task is None or not task.done() or not self._usable(task):
            return
        session = task.result()
        is_silent = self.loop.time() - session.touched > self.settings.resume_within
        is_played = session.episode is not None or session.shared
        if session.began is None and (is_silent or not is_played):
            self.close_soon(session, "made_way")

    def check_allowed(self, call: str) -> None:
        """Raise `UnsupportedError` for a call that the operator does not allow."""
        if call in BRANCHING and not self.settings.allow_branching:
            hint = (
                "start it with --allow-branching, or create_app(…, allow_branching=True), if its clients are trainers"
            )
            raise UnsupportedError(f"this server does not allow {call}", hint)

    # Opening and finding.

    async def open(self, opening: Opening, *, trusted: bool = False, key: Any = None, extra: bool = False) -> Session:
        """Build an environment and lease it. Raises `CapacityError`, or `EnvError` if it cannot be built.

        An `extra` session takes no place. `key` is the client's own name for the session: `opened_with` finds it, if
        the reply was lost.
        """
        if opening.arguments and not (trusted or self.settings.allow_arguments):
            hint = "start the server with them, or with --allow-arguments"
            raise UsageError("this server takes no arguments for its environment from clients", hint)
        own = self.offer.operator_options.intersection(opening.arguments)
        if own and not trusted:
            raise UsageError(f"{min(own)!r} is for the server's operator to choose", "start the server with it")
        if not extra:
            await self._take_room()
        shelf = SessionShelf(self._snapshots)
        try:
            runner = await self._builder.build(opening, shelf)
            id = secrets.token_urlsafe(16)
            session = Session(id, opening, runner, shelf, self._rebuilt, self.loop, self.metrics)
            session.shared = self.offer.instance is not None
            self._open[id] = session
            self._extra += extra
            session.extra = extra
            if isinstance(key, str):
                session.key = key
                self._keys[key] = session
        finally:
            self._building -= not extra
        self.metrics.opened += 1
        log.debug("session opened", extra={"session": id[:8], "env_id": opening.env_id})
        return session

    async def open_or_share(self, opening: Opening, *, key: Any = None, exclusive: bool = False) -> Session:
        """A session for a client: one of its own, or that of the instance which all clients share.

        An `exclusive` client, over a WebSocket, gets the shared session only while no other one has it. Raises
        `CapacityError`, or `UsageError` for options that the shared session was not opened with.
        """
        if self.offer.instance is None:
            return await self.open(opening, key=key)
        if self._default is None or (self._default.done() and not self._usable(self._default)):
            self._default = self.loop.create_task(self.open(opening))
        session = await asyncio.shield(self._default)
        if exclusive and (session.owner is not None or self.loop.time() < session.reserved_until):
            self.metrics.refused += 1
            raise self._full()
        if replace(opening, env_id=session.env_id) != session.opening:
            hint = "all clients of this server share one environment: use the same options, or none"
            raise UsageError("the environment is in use with other options", hint)
        if exclusive:
            session.restart_numbers()
            if isinstance(key, str):
                session.key = key
                self._keys[key] = session
        return session

    def opened_with(self, key: Any) -> Session | None:
        """The session that was opened with this key, if there is one."""
        session = self._keys.get(key) if isinstance(key, str) else None
        return None if session is None or session.closed else session

    def find(self, id: str) -> Session:
        session = self._open.get(id)
        if session is None or session.closed:
            raise SessionLostError(f"no session {id[:8]!r}…", "it was closed or reaped, or the server was restarted")
        return session

    async def default(self) -> Session:
        """The session that plain HTTP calls without one share; made when it is first needed."""
        if self._default is None or (self._default.done() and not self._usable(self._default)):
            opening = Opening(env_id=f"{self.offer.name}#0", arguments={})
            beside_others = self.offer.concurrent or self.settings.isolation == "process"
            self._default = self.loop.create_task(self.open(opening, extra=beside_others))
        session = await asyncio.shield(self._default)
        session.lease = self.settings.idle_timeout
        return session

    @staticmethod
    def _usable(task: asyncio.Task[Session]) -> bool:
        return not task.cancelled() and task.exception() is None and not task.result().closed

    async def fork(self, session: Session) -> Reply:
        """A twin of a session at the same point of its episode, waiting for its client. A `work` for a call."""
        made = await self._run(session.runner, "fork", None)
        if made.type == ERROR:
            return made
        found = decode(made.body)
        twin = None
        try:
            twin = await self.open(replace(session.opening, env_id=found["env_id"]), trusted=True)
            twin.lease = self.settings.resume_within
            restored = await self._run(twin.runner, "restore", {"snapshot": found["snapshot"]})
        except EnvWeaveError as error:
            return fault(error, episode=session.episode)
        finally:
            session.shelf.drop(found["snapshot"])
        if restored.type == ERROR:
            self.close_soon(twin, "not_forked")
            return restored
        twin.resume_at(restored.episode)
        pending = decode(restored.body)["pending"]
        data = {"session_id": twin.id, "env_id": twin.env_id, "pending": pending}
        return Reply("forked", encode(data), session.episode)

    async def _run(self, runner: Runner | None, name: str, data: Any) -> Reply:
        """A call straight on an environment. Raises if the environment is lost."""
        if runner is None:
            raise SessionLostError("the environment is lost", "reset it first")
        answer = self.loop.create_future()
        runner.start(name, data, Form.EXTENDED, partial(give, answer))
        found = await answer
        if isinstance(found, EnvWeaveError):
            raise found
        return found  # type: ignore[no-any-return]

    def describe(self, session: Session, *, schema: bool) -> dict[str, Any]:
        """What a client is told of its session."""
        data: dict[str, Any] = {
            "session_id": session.id,
            "env_id": session.env_id,
            "name": self.offer.name,
            "last_id": session.last_id,
            "resume_within": self.settings.resume_within,
            "multi_agent": session.runner is not None and session.runner.multi_agent,
        }
        if schema and session.runner is not None:
            data |= session.runner.facts
        return data

    async def _rebuilt(self, session: Session) -> Runner:
        return await self._builder.build(session.opening, session.shelf)

    # Leases.

    def attach(self, session: Session, owner: Any) -> None:
        """Lease the session to a connection; one that had it before has it no longer."""
        session.owner = owner
        session.lease = self.settings.idle_timeout
        session.touched = self.loop.time()

    def detach(self, session: Session, owner: Any, lease: float | None) -> None:
        """Its connection is gone: wait for another as long as the lease says, or close."""
        if session.owner is not owner or session.closed:
            return
        lease = 0 if session.closes_when_left else lease
        session.owner = None
        session.touched = self.loop.time()
        session.lease = lease
        session.reserved_until = session.touched + (lease or 0)
        if lease == 0:
            self.close_soon(session, "disconnected")

    async def _sweep(self) -> None:
        settings = self.settings
        times = (settings.idle_timeout, settings.step_timeout, settings.resume_within or None)
        tick = min([TICK, *(time / 4 for time in times if time is not None)])
        while True:
            due = self.loop.time() + tick
            await asyncio.sleep(tick)
            now = self.loop.time()
            self.metrics.lag = max(0.0, now - due)
            self._look_after_all(now)

    def _look_after_all(self, now: float) -> None:
        for session in list(self._open.values()):
            try:
                self._look_after(session, now)
            except Exception:  # a mistake of ours must not end the watch over all others
                log.exception("a session could not be looked after")

    def _look_after(self, session: Session, now: float) -> None:
        began, timeout = session.began, self.settings.step_timeout
        if began is not None:
            if timeout is not None and now - began > timeout:
                session.give_up(f"took longer than {timeout:g} s")
        elif not session.closed and session.lease is not None and now - session.touched > session.lease:
            self.close_soon(session, "idle" if session.owner is not None else "not_resumed")

    # The end of a session.

    def close_soon(self, session: Session, why: str, receiver: Receiver | None = None) -> None:
        """Tear a session down without waiting for it; the receiver is told when it is done."""
        session.leaving = True
        task = self.loop.create_task(self.close(session, why))
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)
        if receiver is not None:
            task.add_done_callback(lambda task: receiver(task.result()))

    async def close(self, session: Session, why: str = "closed") -> Reply:
        """Close the environment, in bounded time, and forget the session. Gives its `closed` reply."""
        timeout = self.settings.close_timeout
        if session.closed:
            return fault(SessionLostError(f"the session of {session.env_id} is closed"))
        if session.sharers and why in ("closed", "disconnected", "not_resumed"):
            session.owner, session.leaving, session.lease = None, False, self.settings.idle_timeout
            return RELEASED
        session.closed = session.leaving = True
        owner = session.owner
        try:
            if session.began is not None:
                await asyncio.wait_for(session.settled(), timeout)
        except TimeoutError:
            session.give_up(f"was still running {timeout:g} s after its session was closed")
        try:
            reply = await self._torn_down(session)
            session.count_ends("close", reply)
        finally:
            session.shelf.clear()
            self._extra -= session.extra and session.id in self._open
            self._open.pop(session.id, None)
            self._keys.pop(session.key, None)
            self.metrics.ended[why] += 1
            for waiting in self._at_the_door:
                give(waiting, None)
            self._at_the_door.clear()
        if owner is not None:
            owner.session_ended(session, why)
        log.debug("session ended", extra={"session": session.id[:8], "env_id": session.env_id, "why": why})
        return reply

    async def _torn_down(self, session: Session) -> Reply:
        """Close the environment. One that was given up in the middle of a call closes when that call returns."""
        runner, timeout = session.runner, self.settings.close_timeout
        if runner is None:
            return RELEASED
        try:
            return await asyncio.wait_for(self._run(runner, "close", None), timeout)
        except EnvWeaveError as error:
            return fault(error)
        except TimeoutError:
            runner.abandon()
            return fault(EnvError(f"close of {session.env_id} took longer than {timeout:g} s"))

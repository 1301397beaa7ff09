"""The extension: many sessions on one connection, numbered calls, answers as they come."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from envweave.errors import BatchRefusedError, EnvWeaveError, ProtocolError, SessionLostError
from envweave.server.claim import Claim
from envweave.server.express import TAKEN
from envweave.server.frames import closed_frame, opened_frame
from envweave.server.host import Form, Reply, fault
from envweave.server.reading import Disconnected, quick_step, read_frame, read_opening
from envweave.server.runners import HostRunner
from envweave.server.session import Session
from envweave.server.sessions import Sessions
from envweave.server.sweep import BatchedStep, Sweep
from envweave.wire.codec import encode
from envweave.wire.protocol import BRANCHING, CALLS

if TYPE_CHECKING:
    from envweave.server.sockets import LendingSocket
    from envweave.server.stream import Receive, Send

log = logging.getLogger(__name__)

INTERNAL_ERROR = 1011
"""The WebSocket's close code for a failure of the server; a client reconnects and resumes its sessions."""
CLOSE_SECONDS = 5.0
"""How long a connection that cannot be written to may take to close."""

ORDINARY = frozenset(CALLS) - {"fork", "close"}
"""Calls that go straight to the environment."""


class WovenStream:
    """One connection of a client that speaks the extension."""

    def __init__(self, sessions: Sessions, receive: Receive, send: Send, socket: LendingSocket | None) -> None:
        self._sessions = sessions
        self._socket = socket
        self._receive = receive
        self._send = send
        self._loop = sessions.loop
        self._refs: dict[int, Session] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._outbox: list[bytes] = []
        self._lent = False
        self._gone = False
        self._stepping = False
        """Whether the last message was a single step."""
        self._filled: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """Serve until one side leaves. The sessions wait for a client whose connection broke."""
        reader, writer = self._loop.create_task(self._read()), self._loop.create_task(self._write())
        writer.add_done_callback(_log_failure)
        lease: float | None = self._sessions.settings.resume_within
        try:
            await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            if not reader.done():
                await self._close(reader)
            if reader.done():
                lease = 0 if reader.result().for_good else lease
        finally:
            reader.cancel()
            writer.cancel()
            self._gone = True
            for session in self._refs.values():
                self._sessions.detach(session, self, lease)

    async def _close(self, reader: asyncio.Task[Disconnected]) -> None:
        """Without a writer no reply reaches the client: close the connection, and read what was sent before that."""
        with suppress(Exception):  # it may be closed already, and the web server closes it when `run` returns
            await self._send({"type": "websocket.close", "code": INTERNAL_ERROR})
        await asyncio.wait((reader,), timeout=CLOSE_SECONDS)

    # In.

    async def _read(self) -> Disconnected:
        """Handle messages until the client is gone."""
        while True:
            message = await self._receive()
            try:
                self._take(read_frame(message, self._sessions.settings.max_message_bytes))
            except Disconnected as left:
                return left
            except ProtocolError as error:
                self._put(None, None, fault(error))

    def _take(self, frame: Any) -> None:
        for message in frame if isinstance(frame, list) else (frame,):
            if not isinstance(message, dict):
                raise ProtocolError(f"a message is an object, not {type(message).__name__}")
            ref, number = message.get("ref", 0), message.get("id")
            try:
                self._handle(message, ref, number)
            except EnvWeaveError as error:
                self._put(ref, number, fault(error))

    def _handle(self, message: dict[str, Any], ref: Any, number: Any) -> None:
        kind = message.get("type")
        if kind.__class__ is str and kind in ORDINARY:
            session = self._session(ref, number)
            self._stepping = kind == "step"
            if kind in BRANCHING and not self._may(kind, session, ref, number):
                return
            session.call(kind, message.get("data", {}), Form.EXTENDED, partial(self._put, ref, number), number)
        elif kind == "open":
            if ref.__class__ is not int:
                raise ProtocolError(f"ref is {ref!r:.80}", "use a whole number")
            task = self._loop.create_task(self._open(ref, message.get("data")))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        elif kind == "batch":
            self._stepping = False
            self._batch(message.get("data"))
        elif kind == "fork":
            session = self._session(ref, number)
            if not self._may(kind, session, ref, number):
                return
            work = partial(self._sessions.fork, session)
            session.call(kind, None, Form.EXTENDED, partial(self._put, ref, number), number, work)
        elif kind == "close":
            session = self._session(ref, number)
            self._sessions.close_soon(session, "closed", partial(self._put, ref, number))
            self._refs.pop(ref, None)
        else:
            known = ", ".join(("open", "batch", *CALLS))
            raise ProtocolError(f"unknown message type: {kind!r:.80}", f"types: {known}")

    def _may(self, kind: str, session: Session, ref: Any, number: Any) -> bool:
        """Whether the operator allows a call; if not, it is answered with the reason."""
        try:
            self._sessions.check_allowed(kind)
        except EnvWeaveError as error:
            self._put(ref, number, session.refuse(number, error))
            return False
        return True

    def _session(self, ref: Any, number: Any) -> Session:
        if number.__class__ is not int or number < 1:
            raise ProtocolError(f"the id of a call is {number!r:.80}", "number calls 1, 2, 3, …")
        session = self._refs.get(ref) if ref.__class__ is int else None
        if session is None:
            raise ProtocolError(f"no session with the ref {ref!r:.80}", "open it first")
        return session

    async def _open(self, ref: int, data: Any) -> None:
        try:
            reply = await self._opened(ref, data)
        except EnvWeaveError as error:
            code = "FACTORY_ERROR" if error.code.startswith("env") else ""
            reply = fault(error, openenv_code=code, debug=self._sessions.settings.debug)
        self._put(ref, None, reply)

    async def _opened(self, ref: int, data: Any) -> Reply:
        if ref in self._refs:
            raise ProtocolError(f"the ref {ref} is in use")
        named = data if isinstance(data, dict) else {}
        found = self._sessions.opened_with(named.get("key"))
        if named.get("resume") is not None:
            if self._gone:  # it will try again; until then the session waits
                raise SessionLostError("nobody waits for an answer")
            found = self._sessions.find(str(named["resume"]))
        if found is not None and found.owner is not None and found.owner is not self:
            found.owner.session_taken(found)
        opening = partial(read_opening, data, f"{self._sessions.offer.name}#0")
        session = found or await self._sessions.open_or_share(opening(), key=named.get("key"), exclusive=True)
        if self._gone:
            self._sessions.close_soon(session, "disconnected")
            raise SessionLostError(f"nobody waits for {session.env_id}")
        self._sessions.attach(session, self)
        self._refs[ref] = session
        wants_schema = isinstance(data, dict) and data.get("schema") is True
        return Reply("opened", encode(self._sessions.describe(session, schema=wants_schema)))

    def _batch(self, messages: Any) -> None:
        """Steps of several sessions: all actions are checked before any is used."""
        if not isinstance(messages, list) or not all(isinstance(m, dict) and m.get("type") == "step" for m in messages):
            raise ProtocolError("the data of a batch is not a list of steps")
        steps = [BatchedStep(message.get("ref", 0), message.get("id"), message.get("data")) for message in messages]
        unchecked = []
        for step in steps:
            try:
                step.session = self._session(step.ref, step.number)
                runner = step.session.runner
                if step.number != step.session.last_id + 1 or step.session.began is not None or runner is None:
                    continue  # it has run already, or there is nothing that could check it
                if isinstance(runner, HostRunner):
                    step.action = runner.check(step.action)
                else:
                    unchecked.append(step)
            except EnvWeaveError as error:  # of the session, or of the action
                step.problem = error
        self._run_when_checked(steps, unchecked)

    def _run_when_checked(self, steps: list[BatchedStep], unchecked: list[BatchedStep]) -> None:
        """Run the batch when the processes of environments have checked the actions that are theirs."""
        if not unchecked:
            self._run_batch(steps)
            return
        left = list(unchecked)

        def told(step: BatchedStep, problem: EnvWeaveError | None) -> None:
            step.problem = problem
            left.pop()
            if not left:
                self._run_batch(steps)

        for step in unchecked:
            runner: Any = step.session.runner  # type: ignore[union-attr]
            runner.check_soon(step.action, partial(told, step))

    def _run_batch(self, steps: list[BatchedStep]) -> None:
        refused = any(step.problem is not None for step in steps)
        other = BatchRefusedError("another action of the same batch was refused", "nothing has changed")
        quick = []
        for step in steps:
            session, ref, number = step.session, step.ref, step.number
            if session is None:
                self._put(ref, number, fault(step.problem or other))
            elif refused:
                self._put(ref, number, session.refuse(number, step.problem or other))
            elif session.is_quick_here:
                quick.append(step)
            else:
                session.call("step", step.action, Form.EXTENDED, partial(self._put, ref, number), number)
        if quick:
            Sweep(self._sessions.threads, quick, written, self._put_all, self._put).start()

    # Out.

    def _put(self, ref: Any, number: Any, reply: Reply) -> None:
        self._put_all([written(ref, number, reply)])

    def _put_all(self, messages: list[bytes]) -> None:
        self._outbox += messages
        if not self._filled.done():
            self._filled.set_result(None)
        if self._lent and self._socket is not None:
            self._socket.recall()

    async def _write(self) -> None:
        """Send what there is, all of it in one frame. Returns if the connection is gone."""
        while True:
            await self._filled
            self._filled = self._loop.create_future()
            frames, self._outbox = self._outbox, []
            text = frames[0] if len(frames) == 1 else b"[%b]" % b",".join(frames)
            message = {"type": "websocket.send", "text": text.decode()}
            try:
                await self._send(message)
            except (OSError, RuntimeError) as error:  # web servers raise these if the connection is closed or closing
                log.debug("cannot send: %s", error)
                return
            if self._socket is not None and self._stepping and len(self._refs) == 1 and not self._outbox:
                await self._lend(self._socket, *next(iter(self._refs.items())))

    async def _lend(self, socket: LendingSocket, ref: int, session: Session) -> None:
        """Let the express serve a connection with one session, for as long as it sends quick steps."""
        if not (session.is_quick and socket.lendable):
            return
        self._lent = True
        try:
            hung = not await socket.lend(self._sessions.express, partial(self._serve_step, ref, session))
        finally:
            self._lent = False
        if hung:
            session.wait(partial(self._put, ref, session.last_id))

    @staticmethod
    def _serve_step(ref: int, session: Session, data: bytes, claim: Claim) -> bytes | None:
        """In the express's thread."""
        frame = quick_step(opened_frame(data))
        if frame is None or frame.get("ref", 0) != ref or frame.get("id").__class__ is not int or "data" not in frame:
            return None
        reply = session.step_here(frame["data"], Form.EXTENDED, claim, frame["id"])
        if reply is None or reply is session.taken:
            return None if reply is None else TAKEN
        return closed_frame(written(ref, frame["id"], reply))

    def session_ended(self, session: Session, why: str) -> None:
        """The session was closed by the server."""
        self._tell(session, SessionLostError(f"the session of {session.env_id} ended: {why}"), why != "closed")

    def session_taken(self, session: Session) -> None:
        """Another connection resumes the session: the old one is dead, or about to be."""
        self._tell(session, SessionLostError(f"the session of {session.env_id} was resumed elsewhere"), True)

    def _tell(self, session: Session, error: SessionLostError, aloud: bool) -> None:
        if self._socket is not None:
            self._socket.recall()
        for ref in [ref for ref, known in self._refs.items() if known is session]:
            del self._refs[ref]
            if aloud:
                self._put(ref, None, fault(error))


def _log_failure(writer: asyncio.Task[None]) -> None:
    if not writer.cancelled() and (error := writer.exception()) is not None:
        log.error("a connection cannot be written to and is closed", exc_info=error)


def written(ref: Any, number: Any, reply: Reply) -> bytes:
    """The reply as a message; what has no meaning as a ref or number is left out."""
    head = b'{"type":"%b"' % reply.type.encode()
    if ref.__class__ is int:
        head += b',"ref":%d' % ref
    if number.__class__ is int:
        head += b',"id":%d' % number
    return head + b',"data":%b}' % reply.body

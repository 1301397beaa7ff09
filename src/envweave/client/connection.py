"""One WebSocket to one server, and any number of sessions on it.

When a connection is lost, it is made again and its sessions are resumed: each is opened by its ID, and the call that
was under way is sent once more under its number. The server runs each number once, however often it comes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from threading import get_ident
from typing import Any

from envweave.client.codec import to_body
from envweave.client.endpoint import ServerEndpoint, SessionSpec
from envweave.client.session import Opened, PendingCall, RemoteSession
from envweave.client.websocket import WebSocket, open_websocket, pause_before
from envweave.errors import (
    ClosedError,
    EnvWeaveError,
    ProtocolError,
    SessionLostError,
    TransportError,
    WaitTimeoutError,
    describe,
)
from envweave.wire.codec import ReplyMessage, decode_replies, encode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import ERROR

log = logging.getLogger(__name__)

TOO_BIG = 1009
"""The close code of a frame that is larger than the receiver takes."""

MAX_ATTEMPTS = 10
"""Connections in a row that were accepted and dropped again before any session was open on them."""


class WebSocketSession(RemoteSession):
    """The number of the last call, and the call that has no answer yet."""

    def __init__(self, connection: ServerConnection, ref: int, spec: SessionSpec, data: dict[str, Any]) -> None:
        self.ref = ref
        self.server = connection.endpoint.address.http
        self.connection = connection
        self.up = False
        """The session is open on the current connection."""
        self.opening = PendingCall("open", to_body(data, "open"))
        self.call: PendingCall | None = None
        self.lost: SessionLostError | None = None
        self._spec = spec
        self._number = 0

    @property
    def home(self) -> asyncio.AbstractEventLoop:  # type: ignore[override]
        return self.connection.home

    @property
    def thread(self) -> int:  # type: ignore[override]
        return self.connection.thread

    def send(self, call: PendingCall) -> None:
        self.number(call)
        if self.up:
            self.connection.write(self.message(call))

    def number(self, call: PendingCall) -> None:
        """Take a call as the one under way, without sending it. Raises `SessionLostError`."""
        if self.lost is not None:
            raise SessionLostError(self.lost.message, self.lost.hint)
        self._number += 1
        call.session, call.number, self.call = self, self._number, call

    def message(self, call: PendingCall) -> bytes:
        head = b'{"type":"%b","ref":%d,"id":%d' % (call.kind.encode(), self.ref, call.number)
        return b'%b,"data":%b}' % (head, call.body) if call.body else head + b"}"

    def open_message(self) -> bytes:
        body = encode({"resume": self.opened.session_id}) if self.opening.answered else self.opening.body
        return b'{"type":"open","ref":%d,"data":%b}' % (self.ref, body)

    async def move(self) -> None:
        await self.connection.move()

    async def renew(self) -> WebSocketSession:
        session = await self.connection.open(replace(self._spec, env_id=self.opened.env_id))
        await self.connection.forget(self)
        return session

    async def join(self, session_id: str, env_id: str) -> WebSocketSession:
        return await self.connection.open(self._spec, resume=session_id)

    async def leave(self) -> None:
        await self.connection.forget(self)

    # Replies.

    def receive(self, message: ReplyMessage) -> None:
        call = self.call
        if message.id is None:
            self._opened(message)
        elif call is not None and call.number == message.id:  # else a second answer to a call that was sent twice
            self.call = None
            if message.type == ERROR:
                self._refused(call, fault_from_data(message.data))
                return
            if call.kind == "close":
                self.lost = SessionLostError(f"the session of {self.opened.env_id} is closed")
            call.answer(message.data)

    def _refused(self, call: PendingCall, fault: EnvWeaveError) -> None:
        if isinstance(fault, ProtocolError) and not call.repeated:
            # Perhaps the two sides do not agree on its number. The server says how far it has come when the session is
            # opened again, and the call, which was not run, is sent under the right one.
            call.repeated, self.call = True, call
            self.connection.reconnect()
            return
        if isinstance(fault, SessionLostError):
            self.lost = fault
        call.answer(None, fault)

    def _opened(self, message: ReplyMessage) -> None:
        try:
            if message.type == ERROR:
                raise fault_from_data(message.data)
            self.opened = Opened.from_data(message.data)
        except EnvWeaveError as fault:
            if not self.opening.answered:
                self.opening.answer(None, fault)
            else:  # it cannot be resumed, or the server has ended it
                self.lose(fault)
            return
        self.up = True
        if not self.opening.answered:
            self._number = self.opened.last_id
            self.opening.answer(message.data)
            return
        call, reached = self.call, self.opened.last_id
        if call is None or call.number > reached + 1:  # a call before it never arrived, so its number is free
            self._number = reached
        if call is not None:
            self._send_again(call)

    def _send_again(self, call: PendingCall) -> None:
        """After a new connection: the open call, and the others of its batch as soon as their sessions are up."""
        if call.number > self._number:
            self.number(call)
        if call.batch:
            self.connection.send_batch([one for one in call.batch if not one.answered])
        else:
            self.connection.write(self.message(call))

    def fail(self, error: EnvWeaveError) -> None:
        """End the call under way, or the opening; the session itself is intact."""
        call, self.call = self.call, None
        if not self.opening.answered:
            self.opening.answer(None, error)
        elif call is not None:
            call.answer(None, error)

    def lose(self, error: EnvWeaveError) -> None:
        """The server does not have this session any more."""
        self.lost = SessionLostError(error.message, error.hint)  # each session has an error of its own
        self.lost.__cause__ = error.__cause__
        self.fail(self.lost)


class ServerConnection:
    """Sends what its sessions say and gives each reply to the session it is for. Lives on one event loop."""

    def __init__(self, endpoint: ServerEndpoint) -> None:
        self.endpoint = endpoint
        self.home, self.thread = asyncio.get_running_loop(), get_ident()
        self._pid = os.getpid()
        self._socket: WebSocket | None = None
        self._sessions: dict[int, WebSocketSession] = {}
        self._refs = 0
        self._outgoing: list[bytes] = []
        self._reader: asyncio.Task[None] | None = None
        self._connecting: asyncio.Task[None] | None = None

    # Sessions.

    def start(self, socket: WebSocket) -> None:
        """Use a socket that was connected just now."""
        self._socket = socket
        self._reader = self.home.create_task(self._run(socket), name="envweave-connection")

    async def open(self, spec: SessionSpec, *, resume: str | None = None, schema: bool = True) -> WebSocketSession:
        """A session with a new environment, or with one that exists on the server."""
        self._check_process()
        opening = {**spec.to_data(schema=schema), "key": secrets.token_urlsafe(12)}  # sent again, it opens the same one
        data = {"resume": resume, "schema": schema} if resume else opening
        self._refs += 1  # from 1: a message without a reference is about the whole connection
        session = self._sessions[self._refs] = WebSocketSession(self, self._refs, spec, data)
        try:
            await self._ensure_connected()
            if self._socket is not None:
                self.write(session.open_message())
            await session.opening.wait(self.endpoint.message_timeout_s)
            session.opening.result()
        except WaitTimeoutError as error:
            await self.forget(session)
            raise TransportError(error.message, "message_timeout_s=… gives the server more time") from None
        except BaseException:
            await self.forget(session)
            raise
        return session

    async def _ensure_connected(self) -> None:
        """Connect unless there is a connection. All who wait share one attempt, and its failure."""
        if self._reader is not None and not self._reader.done():
            return
        if self._connecting is None or self._connecting.done():
            self._connecting = self.home.create_task(self._connect())
        try:
            await asyncio.shield(self._connecting)
        except EnvWeaveError as error:
            raise type(error)(error.message, error.hint) from error  # each waiter raises an error of its own

    async def _connect(self) -> None:
        self.endpoint = await self.endpoint.ensure_running()
        self.start(await _open_extended(self.endpoint))

    async def forget(self, session: WebSocketSession) -> None:
        """Drop a session; the last one closes the connection."""
        self._sessions.pop(session.ref, None)
        if not self._sessions:
            await self.close()

    async def close(self) -> None:
        """End the connection; sessions that are still on the server wait there to be resumed."""
        reader, self._reader = self._reader, None
        socket, self._socket = self._socket, None
        if reader is not None:
            reader.cancel()
        if socket is not None:
            await socket.close()

    async def move(self) -> None:
        """Resume the sessions on the running loop; the loop before has stopped, and its socket with it."""
        self._check_process()
        loop = asyncio.get_running_loop()
        if self.home is not loop:
            self.home, self.thread = loop, get_ident()
            self._socket = self._connecting = None
            self._suspend()
            self._reader = loop.create_task(self._run(None), name="envweave-connection")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise ClosedError("this connection belongs to another process", "connect after the fork")

    # Out.

    def write(self, message: bytes) -> None:
        """Send a message. With several sessions, what is written in one turn of the loop is sent in one frame."""
        if len(self._sessions) < 2 and not self._outgoing:
            if self._socket is not None:
                self._socket.write(message)
            return
        if not self._outgoing:
            self.home.call_soon(self._flush)
        self._outgoing.append(message)

    def send_batch(self, calls: Sequence[PendingCall]) -> None:
        """Send steps of several sessions in one message, unless a session is not up: then when all are up again."""
        if len(calls) == 1:
            (call,) = calls
            if call.session.up:
                self.write(call.session.message(call))
            return
        for call in calls:
            call.batch = calls
        if all(call.session.up for call in calls):
            steps = [b'{"type":"step","ref":%d,"id":%d,"data":%b}' % (c.session.ref, c.number, c.body) for c in calls]
            self.write(b'{"type":"batch","data":[%b]}' % b",".join(steps))

    def _flush(self) -> None:
        messages, self._outgoing = self._outgoing, []
        if messages and self._socket is not None:
            self._socket.write(messages[0] if len(messages) == 1 else b"[%b]" % b",".join(messages))

    # In.

    async def _run(self, socket: WebSocket | None) -> None:
        """Read from one connection after the other, for as long as the server can be reached."""
        attempt = 0
        try:
            while attempt < MAX_ATTEMPTS:
                if socket is None:
                    await asyncio.sleep(pause_before(attempt) if attempt else 0.0)
                    socket = await self._resume()
                await self._read(socket)
                attempt = 0 if any(session.up for session in self._sessions.values()) else attempt + 1
                self._socket = socket = None
                self._suspend()
            raise TransportError("the server drops every connection")
        except EnvWeaveError as error:
            lost = SessionLostError(f"the connection was lost and not found again: {error.message}", error.hint)
            lost.__cause__ = error
            self._lose_all(lost)
        except Exception as error:  # callers wait, so every error must reach them
            log.exception("the connection to %s failed", self.endpoint.address.ws)
            self._lose_all(SessionLostError(f"the connection failed: {describe(error)}"))
        finally:
            self._socket = None if self._socket is socket else self._socket
            if socket is not None and self._reader is not None:  # not closed but cancelled: the loop ends
                socket.transport.abort()
                await asyncio.sleep(0)  # its file is closed in the next turn

    async def _read(self, socket: WebSocket) -> None:
        """Hand out replies until the connection ends. A message that was too big is not sent again."""
        socket.listen(self._receive)
        codes, reason = await socket.ended()
        if TOO_BIG in codes:
            problem = f"message too big: {reason}" if reason else "message too big"
            self._fail_all(TransportError(problem, "see max_message_bytes, here and on the server"))

    def _receive(self, frame: bytes) -> None:
        try:
            sessions, replies = self._sessions, decode_replies(frame)
            for message in replies if isinstance(replies, list) else (replies,):
                session = sessions.get(message.ref)
                if session is not None:
                    session.receive(message)
                else:
                    self._receive_unknown(message)
        except Exception as error:  # a peer may send anything
            log.warning("%s sent a message that cannot be read: %s", self.endpoint.address.ws, describe(error))
            self.reconnect()

    def _receive_unknown(self, message: ReplyMessage) -> None:
        if message.type == "opened":  # its client has given up waiting
            last_id = Opened.from_data(message.data).last_id
            self.write(b'{"type":"close","ref":%d,"id":%d}' % (message.ref, last_id + 1))
        elif not message.ref and message.type == ERROR:
            self._fail_all(fault_from_data(message.data))
            self.reconnect()

    # When the connection is lost.

    def reconnect(self) -> None:
        """Leave the connection for a new one, to learn how far each session has come."""
        if self._socket is not None:
            self._socket.transport.abort()
            self._socket = None
            self._suspend()

    def _suspend(self) -> None:
        self._outgoing.clear()
        for session in self._sessions.values():
            session.up = False

    async def _resume(self) -> WebSocket:
        """Connect again and open all sessions again."""
        socket = await _open_extended(self.endpoint)
        try:
            await self.endpoint.check_alive()  # else another server has the address by now
        except BaseException:
            await socket.close()
            raise
        self._socket = socket
        socket.write(b"[%b]" % b",".join([session.open_message() for session in self._sessions.values()]))
        return socket

    def _fail_all(self, error: EnvWeaveError) -> None:
        for session in list(self._sessions.values()):
            session.fail(error)

    def _lose_all(self, error: SessionLostError) -> None:
        for session in list(self._sessions.values()):
            session.lose(error)


async def _open_extended(endpoint: ServerEndpoint) -> WebSocket:
    """A connection to a server that speaks the extension."""
    socket = await open_websocket(endpoint)
    if socket.subprotocol is None:
        await socket.close()
        raise TransportError(f"the server at {endpoint.address.http} does not speak envweave's protocol")
    return socket

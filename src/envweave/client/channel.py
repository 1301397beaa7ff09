"""One WebSocket to one server, and any number of sessions on it.

A connection that drops is found again and its sessions with it: each is opened anew by its ID, and the call that was
under way is sent once more under its number, which the server runs once however often it comes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from envweave.client.dial import dial, pause_before
from envweave.client.session import Opened
from envweave.client.settings import Settings, Wanted
from envweave.client.socket import Socket
from envweave.client.stream import StreamSession
from envweave.errors import (
    ClosedError,
    EnvWeaveError,
    ProtocolError,
    SessionLostError,
    TransportError,
    WaitTimeoutError,
    describe,
)
from envweave.wire.codec import decode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import ERROR

log = logging.getLogger(__name__)

TOO_BIG = 1009
"""The close code of a frame that is larger than the receiver takes."""

MOST_ATTEMPTS = 10
"""Connections in a row that were accepted and dropped again before any session was open on them."""


class Channel:
    """Sends what its sessions say and gives each reply to the session it is for. Lives on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.home = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._socket: Socket | None = None
        self._sessions: dict[int, StreamSession] = {}
        self._refs = 0
        self._outbox: list[bytes] = []
        self._reader: asyncio.Task[None] | None = None
        self._dialling = asyncio.Lock()

    # Sessions come and go.

    def start(self, socket: Socket) -> None:
        """Use a connection that was dialled just now."""
        self._socket = socket
        self._reader = self.home.create_task(self._run(socket), name="envweave-channel")

    async def open(self, wanted: Wanted, *, resume: str | None = None, schema: bool = True) -> StreamSession:
        """A session with the environment that is wanted, or with one that is on the server already."""
        self._check_process()
        async with self._dialling:
            if self._reader is None or self._reader.done():
                self.settings = await self.settings.settled()
                self.start(await dial_extended(self.settings))
        data = {"resume": resume, "schema": schema} if resume else wanted.to_data(schema=schema)
        self._refs += 1  # from 1: a message without a reference is about the whole connection
        session = self._sessions[self._refs] = StreamSession(self, self._refs, wanted, data)
        try:
            if self._socket is not None:
                self.say(session.greeting())
            await session.opening.wait(self.settings.message_timeout_s)
            session.opening.result()
        except WaitTimeoutError as error:
            await self.forget(session)
            raise TransportError(error.message, "message_timeout_s=… gives the server more time") from None
        except BaseException:
            await self.forget(session)
            raise
        return session

    async def forget(self, session: StreamSession) -> None:
        """Drop a session; the last one takes the connection with it."""
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
        """Find the sessions again from the running loop; the one before has stopped, and its socket with it."""
        self._check_process()
        loop = asyncio.get_running_loop()
        if self.home is not loop:
            self.home, self._socket, self._dialling = loop, None, asyncio.Lock()
            self._suspend()
            self._reader = loop.create_task(self._run(None), name="envweave-channel")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise ClosedError("this connection belongs to another process", "connect after the fork")

    # Out.

    def say(self, message: bytes) -> None:
        """Send a message. With several sessions, all that is said in one turn of the loop goes in one frame."""
        if len(self._sessions) < 2 and not self._outbox:
            if self._socket is not None:
                self._socket.write(message)
            return
        if not self._outbox:
            self.home.call_soon(self._flush)
        self._outbox.append(message)

    def _flush(self) -> None:
        messages, self._outbox = self._outbox, []
        if messages and self._socket is not None:
            self._socket.write(messages[0] if len(messages) == 1 else b"[%b]" % b",".join(messages))

    # In.

    async def _run(self, socket: Socket | None) -> None:
        """Read from one connection after the other, for as long as the server can be found."""
        attempt = 0
        try:
            while attempt < MOST_ATTEMPTS:
                if socket is None:
                    await asyncio.sleep(pause_before(attempt) if attempt else 0.0)
                    socket = await self._regain()
                await self._read(socket)
                attempt = 0 if any(session.up for session in self._sessions.values()) else attempt + 1
                self._socket = socket = None
                self._suspend()
            raise TransportError("the server drops every connection")
        except EnvWeaveError as error:
            self._lose_all(
                SessionLostError(f"the connection was lost and not found again: {error.message}", error.hint)
            )
        except Exception as error:  # whatever it is, somebody waits
            log.exception("the channel to %s failed", self.settings.address.ws)
            self._lose_all(SessionLostError(f"the connection failed: {describe(error)}"))
        finally:
            self._socket = None if self._socket is socket else self._socket
            if socket is not None and self._reader is not None:  # not closed but cancelled: the loop ends
                socket.transport.abort()
                await asyncio.sleep(0)  # its file is closed in the next turn

    async def _read(self, socket: Socket) -> None:
        """Hand out replies until the connection ends. What was too big is not sent again."""
        socket.listen(self._take)
        codes, reason = await socket.ended()
        if TOO_BIG in codes:
            problem = f"message too big: {reason}" if reason else "message too big"
            self._fail_all(TransportError(problem, "see max_message_bytes, here and on the server"))

    def _take(self, frame: bytes) -> None:
        try:
            data = decode(frame)
            for message in data if isinstance(data, list) else (data,):
                self._deliver(message)
        except Exception as error:  # a peer may send anything
            log.warning("%s sent what cannot be read: %s", self.settings.address.ws, describe(error))
            self.resume()

    def _deliver(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise ProtocolError(f"a message that is no object: {message!r:.100}")
        session = self._sessions.get(message.get("ref", 0))
        if session is not None:
            session.receive(message)
        elif message.get("type") == "opened":  # nobody waits for it any more
            last_id = Opened.from_data(message.get("data")).last_id
            self.say(b'{"type":"close","ref":%d,"id":%d}' % (message["ref"], last_id + 1))
        elif "ref" not in message and message.get("type") == ERROR:
            self._fail_all(fault_from_data(message.get("data")))
            self.resume()

    # When the connection is lost.

    def resume(self) -> None:
        """Leave the connection for a new one, to learn how far each session has come."""
        if self._socket is not None:
            self._socket.transport.abort()
            self._socket = None
            self._suspend()

    def _suspend(self) -> None:
        self._outbox.clear()
        for session in self._sessions.values():
            session.up = False

    async def _regain(self) -> Socket:
        """Connect again and ask for all sessions again."""
        socket = await dial_extended(self.settings)
        try:
            await self.settings.look()  # else somebody else has the address by now
        except BaseException:
            await socket.close()
            raise
        self._socket = socket
        socket.write(b"[%b]" % b",".join([session.greeting() for session in self._sessions.values()]))
        return socket

    def _fail_all(self, error: EnvWeaveError) -> None:
        for session in self._sessions.values():
            session.fail(error)

    def _lose_all(self, error: SessionLostError) -> None:
        for session in self._sessions.values():
            session.lose(error)


async def dial_extended(settings: Settings) -> Socket:
    """A connection to a server that speaks the extension."""
    socket = await dial(settings)
    if socket.subprotocol is None:
        await socket.close()
        raise TransportError(f"the server at {settings.address.http} does not speak envweave's protocol")
    return socket

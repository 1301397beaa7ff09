"""OpenEnv's protocol: one session for each connection, one reply for each message, in order."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from envweave.errors import CapacityError, EnvWeaveError, ProtocolError, SessionLostError
from envweave.server.claim import Claim
from envweave.server.express import TAKEN
from envweave.server.frames import closed_frame, opened_frame
from envweave.server.host import Form, Reply, fault
from envweave.server.reading import Disconnected, quick_step, read_frame, read_opening
from envweave.server.session import Session, give
from envweave.server.sessions import Sessions

if TYPE_CHECKING:
    from envweave.server.mcp import JsonRpc
    from envweave.server.sockets import LendingSocket
    from envweave.server.stream import Receive, Send

FIELDS = {
    "reset": {"type", "data"},
    "step": {"type", "data"},
    "state": {"type"},
    "close": {"type"},
    "mcp": {"type", "data"},
}
"""The messages, and the keys each may have."""

REFUSAL_WAITS = 2.0
"""Seconds for which a connection that is refused stays open."""


class PlainStream:
    """One connection of a client that speaks OpenEnv's protocol."""

    def __init__(
        self, sessions: Sessions, json_rpc: JsonRpc, receive: Receive, send: Send, socket: LendingSocket | None
    ) -> None:
        self._sessions = sessions
        self._json_rpc = json_rpc
        self._receive = receive
        self._send = send
        self._socket = socket
        self._loop = sessions.loop
        self._ended = False
        self._farewell: asyncio.Future[None] | None = None

    async def run(self, asked: str | None) -> None:
        """Serve until one side leaves; `asked` is the session to attach to, made earlier over HTTP."""
        try:
            session = await self._opened(asked)
        except EnvWeaveError as error:
            code = "" if isinstance(error, CapacityError | SessionLostError) else "FACTORY_ERROR"
            extra = {"active_sessions": self._sessions.count, "max_sessions": self._sessions.most}
            await self._refuse(fault(error, openenv_code=code, extra=extra, debug=self._sessions.settings.debug))
            return
        try:
            await self._serve(session, attached=asked is not None)
        except Disconnected:
            pass
        finally:
            self._sessions.detach(session, self, 0 if asked is None else self._sessions.settings.idle_timeout)

    async def _refuse(self, reason: Reply) -> None:
        """Say why, and close when the client has said something: OpenEnv 0.3 sends before it reads."""
        await self._reply(reason)
        try:
            message = await asyncio.wait_for(self._receive(), REFUSAL_WAITS)
        except TimeoutError:
            message = {"type": "nothing"}
        if message["type"] != "websocket.disconnect":
            await self._send({"type": "websocket.close", "code": 1000})

    async def _opened(self, asked: str | None) -> Session:
        if asked is None:
            name = self._sessions.offer.name
            session = await self._sessions.open_or_share(read_opening(None, f"{name}#0"), exclusive=True)
        else:
            session = self._sessions.find(asked)
            if session.owner is not None:
                raise SessionLostError(f"session {asked[:8]!r}… is attached already")
        self._sessions.attach(session, self)
        return session

    async def _serve(self, session: Session, *, attached: bool) -> None:
        """An attached session is not closed with its WebSocket: OpenEnv's tool clients do that over HTTP."""
        while not self._ended:
            message = await self._receive()
            try:
                kind, data = self._read(message)
            except ProtocolError as error:
                await self._reply(fault(error, openenv_code=_code(error)))
                continue
            if kind == "close":
                if not attached:
                    await self._sessions.close(session)
                await self._close()
                return
            if kind == "mcp":
                await self._reply(Reply("mcp", await self._json_rpc.answer(data, own=session)))
                continue
            answer = self._loop.create_future()
            session.call(kind, data, Form.OPENENV, partial(give, answer))
            await self._reply(await answer)
            if self._socket is not None and session.is_quick and self._socket.lendable:
                await self._lend(self._socket, session)

    async def _lend(self, socket: LendingSocket, session: Session) -> None:
        """Let the express serve this connection for as long as it sends quick steps."""
        if not await socket.lend(self._sessions.express, partial(self._serve_step, session)):
            answer = self._loop.create_future()
            session.wait(partial(give, answer))
            await self._reply(await answer)

    @staticmethod
    def _serve_step(session: Session, data: bytes, claim: Claim) -> bytes | None:
        """In the express's thread."""
        frame = quick_step(opened_frame(data))
        if frame is None or frame.keys() != FIELDS["step"]:
            return None
        reply = session.step_here(frame["data"], Form.OPENENV, claim)
        return None if reply is None else TAKEN if reply is session.taken else closed_frame(written(reply))

    def _read(self, message: Any) -> tuple[str, Any]:
        frame = read_frame(message, self._sessions.settings.max_message_bytes)
        if not isinstance(frame, dict):
            raise ProtocolError(f"a message is an object, not {type(frame).__name__}")
        kind = frame.get("type")
        if not isinstance(kind, str) or kind not in FIELDS:
            raise ProtocolError(f"unknown message type: {kind!r:.80}", f"types: {', '.join(FIELDS)}")
        strangers = frame.keys() - FIELDS[kind]
        if strangers:
            raise ProtocolError(f"invalid message: {kind} has no key {min(strangers)!r:.80}")
        if kind == "step" and "data" not in frame:
            raise ProtocolError("invalid message: step needs `data`, the action")
        return kind, frame.get("data", {})

    async def _reply(self, reply: Reply) -> None:
        await self._send({"type": "websocket.send", "text": written(reply).decode()})

    async def _close(self) -> None:
        if not self._ended:
            self._ended = True
            await self._send({"type": "websocket.close", "code": 1000})

    def session_ended(self, session: Session, why: str) -> None:
        """The session was closed by the server: so is the connection, with the reason."""
        if self._socket is not None:
            self._socket.recall()
        if why != "closed" and not self._ended:
            self._farewell = asyncio.ensure_future(self._say_ended(session, why))

    async def _say_ended(self, session: Session, why: str) -> None:
        try:
            await self._reply(fault(SessionLostError(f"the session of {session.env_id} ended: {why}")))
            await self._close()
        except Exception:  # the other side may be gone; there is nobody left to tell
            self._ended = True


def written(reply: Reply) -> bytes:
    return b'{"type":"%b","data":%b}' % (reply.type.encode(), reply.body)


def _code(error: EnvWeaveError) -> str:
    if error.message.startswith("invalid JSON"):
        return "INVALID_JSON"
    return "UNKNOWN_TYPE" if error.message.startswith("unknown message type") else "VALIDATION_ERROR"

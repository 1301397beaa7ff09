"""OpenEnv's protocol: one session for each connection, one reply for each message, in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from envweave.errors import CapacityError, EnvWeaveError, ProtocolError, SessionLostError, UsageError
from envweave.server.host import Form, Reply, fault
from envweave.server.reading import Disconnected, read_frame, read_opening
from envweave.server.session import Session, give
from envweave.server.sessions import Sessions

if TYPE_CHECKING:
    from envweave.server.stream import Receive, Send

FIELDS = {
    "reset": {"type", "data"},
    "step": {"type", "data"},
    "state": {"type"},
    "close": {"type"},
    "mcp": {"type", "data"},
}
"""The messages, and the keys each may have."""

FATAL = {"CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR"}


class PlainStream:
    """One connection of a client that speaks OpenEnv's protocol."""

    def __init__(self, sessions: Sessions, receive: Receive, send: Send) -> None:
        self._sessions = sessions
        self._receive = receive
        self._send = send
        self._loop = sessions.loop
        self._ended = False

    async def run(self, asked: str | None) -> None:
        """Serve until one side leaves; `asked` is the session to attach to, made earlier over HTTP."""
        try:
            session = await self._opened(asked)
        except EnvWeaveError as error:
            code = "" if isinstance(error, CapacityError | SessionLostError) else "FACTORY_ERROR"
            extra = {"active_sessions": self._sessions.count, "max_sessions": self._sessions.most}
            await self._reply(fault(error, openenv_code=code, extra=extra, debug=self._sessions.settings.debug))
            await self._send({"type": "websocket.close", "code": 1000})
            return
        try:
            await self._serve(session)
        except (Disconnected, OSError):
            pass
        finally:
            self._sessions.detach(session, self, resumable=asked is not None)

    async def _opened(self, asked: str | None) -> Session:
        if asked is None:
            name = self._sessions.offer.name
            session = await self._sessions.open(read_opening(None, f"{name}#0"))
        else:
            session = self._sessions.find(asked)
            if session.owner is not None:
                raise SessionLostError(f"session {asked[:8]!r}… is attached already")
        self._sessions.attach(session, self)
        return session

    async def _serve(self, session: Session) -> None:
        while not self._ended:
            message = await self._receive()
            try:
                kind, data = self._read(message)
            except ProtocolError as error:
                await self._reply(fault(error, openenv_code=_code(error)))
                continue
            if kind == "close":
                await self._sessions.close(session)
                await self._close()
                return
            if kind == "mcp":
                from envweave.server.mcp import answer  # few clients use it

                await self._reply(Reply("mcp", await answer(self._sessions, data, session)))
                continue
            future = self._loop.create_future()
            session.call(kind, data, Form.OPENENV, lambda reply, future=future: give(future, reply))  # type: ignore[misc]
            await self._reply(await future)

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
        text = b'{"type":"%b","data":%b}' % (reply.type.encode(), reply.body)
        await self._send({"type": "websocket.send", "text": text.decode()})

    async def _close(self) -> None:
        if not self._ended:
            self._ended = True
            await self._send({"type": "websocket.close", "code": 1000})

    def session_ended(self, session: Session, why: str) -> None:
        """The session was closed by the server: so is the connection, with the reason."""
        if why != "closed" and not self._ended:
            asyncio.ensure_future(self._say_ended(session, why))

    async def _say_ended(self, session: Session, why: str) -> None:
        try:
            await self._reply(fault(SessionLostError(f"the session of {session.env_id} ended: {why}")))
            await self._close()
        except Exception:  # the other side may be gone; there is nobody left to tell
            self._ended = True


def _code(error: EnvWeaveError) -> str:
    if error.message.startswith("invalid JSON"):
        return "INVALID_JSON"
    return "UNKNOWN_TYPE" if error.message.startswith("unknown message type") else "VALIDATION_ERROR"

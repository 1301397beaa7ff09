"""OpenEnv's JSON-RPC at `/mcp`, over HTTP and WebSocket, and in `/ws`: sessions for its tool clients, and tools."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from envweave.errors import CapacityError, EnvWeaveError, ProtocolError, SessionLostError
from envweave.server.reading import Disconnected, read_opening, read_text
from envweave.server.session import Session
from envweave.server.sessions import Sessions
from envweave.server.toolbox import Outcome, Toolbox
from envweave.tools.error import ToolError
from envweave.tools.output import structured, wrapped_schema
from envweave.wire.codec import decode, encode

if TYPE_CHECKING:
    from envweave.server.stream import Receive, Send

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL, NO_ROOM = (
    -32700, -32600, -32601, -32602, -32603, -32000,
)  # fmt: skip


class JsonRpc:
    """Answers requests over the sessions of one server: always with a reply, never with an exception."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._tools = Toolbox(sessions)

    async def answer_text(
        self, body: str | bytes, session_id: str | None = None, *, own: Session | None = None, note: str = ""
    ) -> bytes:
        """The reply to the text of a request; see `answer`."""
        try:
            request = decode(body)
        except ProtocolError as error:
            return _failed(None, PARSE_ERROR, error.message)
        return await self.answer(request, session_id, own=own, note=note)

    async def answer(
        self, request: Any, session_id: str | None = None, *, own: Session | None = None, note: str = ""
    ) -> bytes:
        """The reply to a request.

        `own` is the session of the connection that it came on, which is then the one that is meant. Otherwise
        `session_id` is the session of one who names none, the default session if it is None. `note` is said of methods
        that there are not.
        """
        if not isinstance(request, dict):
            return _failed(None, PARSE_ERROR, "a request is an object")
        if not _is_request(request):
            return _failed(None, INVALID_REQUEST, "not a JSON-RPC 2.0 request")
        id, method, params = request.get("id"), request["method"], request.get("params", {})
        try:
            result = await self._result(method, params, session_id, own)
        except ActiveSession as error:
            return _failed(id, INVALID_REQUEST, str(error))
        except EnvWeaveError as error:
            return self.refusal(error, id)
        if result is None:
            return _failed(id, UNKNOWN_METHOD, f"Method not found: {method[:80]}{note}")
        return encode({"jsonrpc": "2.0", "id": id, "result": result})

    def refusal(self, error: EnvWeaveError, id: Any = None) -> bytes:
        """An error as the reply to the request with this ID."""
        match error:
            case SessionLostError() | ProtocolError():
                return _failed(id, INVALID_PARAMS, error.message)
            case ToolError():
                return _failed(id, INTERNAL, error.message)
            case CapacityError():
                room = {"active_sessions": self._sessions.count, "max_sessions": self._sessions.most}
                return _failed(id, NO_ROOM, error.message, room)
        return _failed(id, NO_ROOM, error.message, {"factory_name": self._sessions.offer.name})

    async def _result(
        self, method: str, params: dict[str, Any], session_id: str | None, own: Session | None
    ) -> dict[str, Any] | None:
        """None if there is no such method."""
        named = params.get("session_id")
        session_id = own.id if own is not None else session_id if named is None else str(named)
        match method:
            case "openenv/session/create":
                if own is not None:
                    return {"session_id": own.id}
                made = await self._sessions.open(read_opening(None, f"{self._sessions.offer.name}#0"))
                made.lease = self._sessions.settings.idle_timeout
                return {"session_id": made.id}
            case "openenv/session/close":
                return await self._closed(named, own)
            case "tools/list":
                return {"tools": [_listed(tool) for tool in await self._tools.list(session_id)]}
            case "tools/call":
                name, arguments = params.get("name"), params.get("arguments", {})
                if not isinstance(name, str) or not isinstance(arguments, dict):
                    raise ProtocolError("tools/call needs a `name`, and `arguments` that are an object")
                return _called(await self._tools.call(session_id, name, arguments))
            case _:
                return None

    async def _closed(self, named: Any, own: Session | None) -> dict[str, Any]:
        """Close a session, or have it closed as soon as its WebSocket leaves it."""
        if not named:
            raise ProtocolError("openenv/session/close needs a `session_id`")
        closing = self._sessions.find(str(named))
        if closing is own:
            raise ActiveSession("a connection cannot close its own session; close the connection")
        if closing.owner is not None:
            closing.closes_when_left = True
            return {"session_id": closing.id, "closed": False, "closing": True}
        await self._sessions.close(closing)
        return {"session_id": closing.id, "closed": True}


class RpcStream:
    """One connection to the WebSocket at `/mcp`: JSON-RPC on a session of its own, one reply for each request."""

    def __init__(self, sessions: Sessions, json_rpc: JsonRpc, receive: Receive, send: Send) -> None:
        self._sessions = sessions
        self._json_rpc = json_rpc
        self._receive = receive
        self._send = send
        self._farewell: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Serve until one side leaves; the session ends with the connection."""
        try:
            opening = read_opening(None, f"{self._sessions.offer.name}#0")
            session = await self._sessions.open_or_share(opening, exclusive=True)
        except EnvWeaveError as error:
            await self._reply(self._json_rpc.refusal(error))
            await self._close()
            return
        self._sessions.attach(session, self)
        try:
            while True:
                try:
                    text = read_text(await self._receive(), self._sessions.settings.max_message_bytes)
                except ProtocolError as error:
                    await self._reply(_failed(None, PARSE_ERROR, error.message))
                    continue
                await self._reply(await self._json_rpc.answer_text(text, own=session))
        except Disconnected:
            pass
        finally:
            self._sessions.detach(session, self, 0)

    async def _reply(self, body: bytes) -> None:
        await self._send({"type": "websocket.send", "text": body.decode()})

    async def _close(self) -> None:
        with suppress(Exception):  # the other side may be gone already
            await self._send({"type": "websocket.close", "code": 1000})

    def session_ended(self, session: Session, why: str) -> None:
        """The session was closed by the server: so is the connection."""
        if why != "disconnected":
            self._farewell = asyncio.ensure_future(self._close())


class ActiveSession(Exception):  # noqa: N818  (JSON-RPC has a code of its own for it)
    """A connection asked to close the session that it uses."""


def _is_request(request: dict[str, Any]) -> bool:
    """Whether it has the form of OpenEnv's requests: no other keys, `params` an object if they are there."""
    id, method, params = request.get("id"), request.get("method"), request.get("params", {})
    has_form = request.get("jsonrpc") == "2.0" and isinstance(method, str) and isinstance(params, dict)
    named = id is None or (isinstance(id, str | int) and not isinstance(id, bool))
    return has_form and named and request.keys() <= {"jsonrpc", "id", "method", "params"}


def _listed(tool: dict[str, Any]) -> dict[str, Any]:
    """With all the keys that OpenEnv's server sends."""
    schema = tool.get("outputSchema")
    shown = {**tool, "outputSchema": None if schema is None else wrapped_schema(schema)}
    return {**dict.fromkeys(("title", "icons", "annotations", "meta", "execution")), **shown}


def _called(outcome: Outcome) -> dict[str, Any]:
    if outcome.kind:
        raise ToolError(outcome.message)
    if outcome.whole is not None:
        return outcome.whole  # type: ignore[no-any-return]
    value = outcome.value
    text = value if isinstance(value, str) else encode(value).decode()
    return {
        "content": [{"type": "text", "text": text, "annotations": None, "meta": None}],
        "structured_content": structured(value, wrapped=outcome.wrapped),
        "meta": {"fastmcp": {"wrap_result": True}} if outcome.wrapped else None,
        "data": value,
        "is_error": False,
    }


def _failed(id: Any, code: int, message: str, data: Any = None) -> bytes:
    return encode({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}})

"""OpenEnv's JSON-RPC at `/mcp` and in its WebSocket: sessions for its tool clients, and the environment's tools."""

from __future__ import annotations

from typing import Any

from envweave.errors import CapacityError, EnvWeaveError, ProtocolError, SessionLostError
from envweave.server.reading import read_opening
from envweave.server.sessions import Sessions
from envweave.server.toolbox import Outcome, Toolbox
from envweave.tools.error import ToolError
from envweave.tools.output import structured, wrapped_schema
from envweave.wire.codec import decode, encode

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL, NO_ROOM = (
    -32700, -32600, -32601, -32602, -32603, -32000,
)  # fmt: skip


class JsonRpc:
    """Answers requests over the sessions of one server: always with a reply, never with an exception."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._tools = Toolbox(sessions)

    async def answer_text(self, body: bytes, session_id: str | None, note: str = "") -> bytes:
        """The reply to the text of a request; see `answer`."""
        try:
            request = decode(body)
        except ProtocolError as error:
            return _failed(None, PARSE_ERROR, error.message)
        return await self.answer(request, session_id, note)

    async def answer(self, request: Any, session_id: str | None, note: str = "") -> bytes:
        """The reply to a request.

        `session_id` is the session of one who names none, the default session if it is None. `note` is said of methods
        that there are not.
        """
        if not isinstance(request, dict):
            return _failed(None, PARSE_ERROR, "a request is an object")
        id, method, params = request.get("id"), request.get("method"), request.get("params", {})
        if request.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict):
            return _failed(id, INVALID_REQUEST, "not a JSON-RPC 2.0 request")
        try:
            result = await self._result(method, params, session_id)
        except SessionLostError as error:
            return _failed(id, INVALID_PARAMS, error.message)
        except ToolError as error:
            return _failed(id, INTERNAL, error.message)
        except CapacityError as error:
            room = {"active_sessions": self._sessions.count, "max_sessions": self._sessions.most}
            return _failed(id, NO_ROOM, error.message, room)
        except ProtocolError as error:
            return _failed(id, INVALID_PARAMS, error.message)
        except EnvWeaveError as error:
            return _failed(id, NO_ROOM, error.message, {"factory_name": self._sessions.offer.name})
        if result is None:
            return _failed(id, UNKNOWN_METHOD, f"Method not found: {method[:80]}{note}")
        return encode({"jsonrpc": "2.0", "id": id, "result": result})

    async def _result(self, method: str, params: dict[str, Any], session_id: str | None) -> dict[str, Any] | None:
        """None if there is no such method."""
        named = params.get("session_id")
        session_id = session_id if named is None else str(named)
        match method:
            case "openenv/session/create":
                made = await self._sessions.open(read_opening(None, f"{self._sessions.offer.name}#0"))
                made.lease = self._sessions.settings.idle_timeout
                return {"session_id": made.id}
            case "openenv/session/close":
                closing = self._sessions.find(str(named))
                await self._sessions.close(closing)
                return {"session_id": closing.id, "closed": True}
            case "tools/list":
                return {"tools": [_listed(tool) for tool in await self._tools.list(session_id)]}
            case "tools/call":
                name, arguments = params.get("name"), params.get("arguments", {})
                if not isinstance(name, str) or not isinstance(arguments, dict):
                    raise ProtocolError("tools/call needs a `name`, and `arguments` that are an object")
                return _called(await self._tools.call(session_id, name, arguments))
            case _:
                return None


def _listed(tool: dict[str, Any]) -> dict[str, Any]:
    """With all the keys that OpenEnv's server sends."""
    schema = tool.get("outputSchema")
    shown = {**tool, "outputSchema": None if schema is None else wrapped_schema(schema)}
    return {**shown, **dict.fromkeys(("title", "icons", "annotations", "meta", "execution"))}


def _called(outcome: Outcome) -> dict[str, Any]:
    if outcome.kind:
        raise ToolError(outcome.message)
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
    error = {"code": code, "message": message}
    return encode({"jsonrpc": "2.0", "id": id, "error": {**error, "data": data} if data else error})

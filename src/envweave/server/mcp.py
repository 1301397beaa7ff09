"""OpenEnv's JSON-RPC at `/mcp`: its tool clients create their session there, then attach a WebSocket to it."""

from __future__ import annotations

from typing import Any

from envweave.errors import CapacityError, EnvWeaveError, ProtocolError, SessionLostError
from envweave.server.reading import read_opening
from envweave.server.sessions import Sessions
from envweave.wire.codec import decode, encode

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL, NO_ROOM = (
    -32700, -32600, -32601, -32602, -32603, -32000,
)  # fmt: skip


async def answer_text(sessions: Sessions, body: bytes) -> bytes:
    """The reply to the text of a JSON-RPC request; always a reply, never an exception."""
    try:
        request = decode(body)
    except ProtocolError as error:
        return _failed(None, PARSE_ERROR, error.message)
    return await answer(sessions, request)


async def answer(sessions: Sessions, request: Any) -> bytes:
    """The reply to a JSON-RPC request."""
    if not isinstance(request, dict):
        return _failed(None, PARSE_ERROR, "a request is an object")
    id, method, params = request.get("id"), request.get("method"), request.get("params", {})
    if request.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict):
        return _failed(id, INVALID_REQUEST, "not a JSON-RPC 2.0 request")
    try:
        if method == "openenv/session/create":
            made = await sessions.open(read_opening(None, f"{sessions.offer.name}#0"))
            made.lease = sessions.settings.idle_timeout
            return _answered(id, {"session_id": made.id})
        if method == "openenv/session/close":
            closing = sessions.find(str(params.get("session_id")))
            await sessions.close(closing)
            return _answered(id, {"session_id": closing.id, "closed": True})
        if method in ("tools/list", "tools/call"):
            if "session_id" in params:
                sessions.find(str(params["session_id"]))
            return _failed(id, INTERNAL, "Environment does not support MCP")
    except SessionLostError as error:
        return _failed(id, INVALID_PARAMS, error.message)
    except CapacityError as error:
        room = {"active_sessions": sessions.count, "max_sessions": sessions.most}
        return _failed(id, NO_ROOM, error.message, room)
    except EnvWeaveError as error:
        return _failed(id, NO_ROOM, error.message, {"factory_name": sessions.offer.name})
    return _failed(id, UNKNOWN_METHOD, f"Method not found: {method[:80]}")


def _answered(id: Any, result: Any) -> bytes:
    return encode({"jsonrpc": "2.0", "id": id, "result": result})


def _failed(id: Any, code: int, message: str, data: Any = None) -> bytes:
    error = {"code": code, "message": message}
    return encode({"jsonrpc": "2.0", "id": id, "error": {**error, "data": data} if data else error})

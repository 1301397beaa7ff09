"""The WebSockets, as a plain ASGI application. `/ws`: OpenEnv's protocol, or the extension if the client asks for it.
`/mcp`: OpenEnv's JSON-RPC for tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from envweave.server.mcp import JsonRpc, RpcStream
from envweave.server.plain import PlainStream
from envweave.server.sessions import Sessions
from envweave.server.woven import WovenStream
from envweave.wire.protocol import SUBPROTOCOL

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Stream:
    """The endpoints."""

    def __init__(self, sessions: Sessions, json_rpc: JsonRpc) -> None:
        self._sessions = sessions
        self._json_rpc = json_rpc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._sessions.start()
        await receive()
        if scope["path"].rstrip("/") == "/mcp":
            await send({"type": "websocket.accept"})
            await RpcStream(self._sessions, self._json_rpc, receive, send).run()
            return
        socket = scope.get("extensions", {}).get("envweave")  # where uvicorn runs our own socket; see `sockets`
        if SUBPROTOCOL in scope.get("subprotocols", ()):
            await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL})
            await WovenStream(self._sessions, receive, send, socket).run()
        else:
            await send({"type": "websocket.accept"})
            asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [None])[0]
            await PlainStream(self._sessions, self._json_rpc, receive, send, socket).run(asked)

"""Who may come in: the token, the origin of browsers, the size of what they bring.

Covered: requests without the token; pages of other origins, and of a name that an attacker points at this machine;
bodies over the limit; headers that say two things. Not covered: a client that sends slowly, which is the web server's
matter; a page under an attacker's name that only reads with GET, where there is no token.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.requests import Request

from envweave.errors import EnvWeaveError, ProtocolError, UnauthorizedError
from envweave.server.host import fault
from envweave.server.settings import Settings
from envweave.wire.protocol import CALL_HEADER, SESSION_HEADER

if TYPE_CHECKING:
    from envweave.server.http import Endpoint
    from envweave.server.stream import Receive, Scope, Send

STREAMS = ("/ws", "/mcp")
"""Where there are WebSockets."""

OPEN_PATHS = ("/health", "/web")
"""What answers without a token: a load balancer has none, and a browser gets the page before it can send one."""

ONCE = frozenset(
    {b"authorization", b"content-length", b"host", b"origin", CALL_HEADER.encode(), SESSION_HEADER.encode()}
)
"""Headers that must not be there twice: which of them counts would be a matter of taste."""


class AccessControl:
    """ASGI middleware around everything the server offers."""

    def __init__(self, app: Any, settings: Settings, stream: Any, shortcuts: dict[tuple[str, str], Endpoint]) -> None:
        """WebSockets go straight to `stream`, calls to their endpoint: the layers of a web framework cost more than a
        step.
        """
        self._app = app
        self._stream = stream
        self._shortcuts = shortcuts
        self._token = settings.token.encode() if settings.token else None
        self._origins = frozenset(origin.rstrip("/") for origin in settings.origins)
        self._most = settings.max_message_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._pass(scope, receive, send)
        elif scope["type"] == "http":
            await refuse(send, *refusal)
        else:  # before it is accepted, so that the client sees HTTP 403
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal[1].message})

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"].rstrip("/") in STREAMS:
            await self._stream(scope, receive, send)
            return
        endpoint = self._shortcuts.get((scope.get("method", ""), scope["path"]))
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        response = await endpoint(Request(scope, receive))
        await response(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, EnvWeaveError] | None:
        headers = dict(scope["headers"])
        if len(headers) < len(scope["headers"]):
            names = [name for name, _ in scope["headers"] if name in ONCE]
            if len(set(names)) < len(names):
                return 400, ProtocolError("a header is there twice")
        if self._token is not None and scope["path"] not in OPEN_PATHS and not self._has_token(headers):
            return 401, UnauthorizedError("the token is missing or wrong", "send `Authorization: Bearer <token>`")
        origin = headers.get(b"origin")
        if origin is not None and not self._welcome(origin.decode("latin-1"), headers):
            return 403, UnauthorizedError(f"the origin {origin.decode('latin-1')!r:.80} is not welcome", "--origin URL")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            return 400, ProtocolError("content-length is not a number")
        if len(length) > 18 or int(length) > self._most:
            return 413, ProtocolError(f"a body of {length[:18].decode()} bytes, the limit is {self._most}")
        return None

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        return hmac.compare_digest(given.strip(), self._token or b"") and kind.lower() == b"bearer"

    def _welcome(self, origin: str, headers: dict[bytes, bytes]) -> bool:
        """A page of an origin that the operator named, or of the server itself.

        Any name can be pointed at this machine by whoever owns it, and a page under that name then is "of the server
        itself". So where no token protects the server, its own pages are those under an address or a local name.
        """
        if "*" in self._origins or origin.rstrip("/") in self._origins:
            return True
        try:
            parts = urlsplit(origin)
            is_own = parts.netloc == headers.get(b"host", b"").decode("latin-1") != ""
            return is_own and (self._token is not None or _is_local(parts.hostname or ""))
        except ValueError:
            return False


def _is_local(host: str) -> bool:
    """An address, or a name that nobody can buy."""
    if host.endswith(".localhost") or "." not in host.rstrip("."):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def refuse(send: Send, status: int, error: EnvWeaveError) -> None:
    """Answer an HTTP request with an error."""
    body = http_fault(error)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def http_fault(error: EnvWeaveError) -> bytes:
    """The body of an HTTP error: FastAPI's `detail` beside what the WebSocket says."""
    return fault(error, extra={"detail": error.message}).body

"""Who may come in: the token, the origin of browsers, the size of what they bring."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envweave.errors import EnvWeaveError, ProtocolError, UnauthorizedError
from envweave.server.host import fault
from envweave.server.settings import Settings

if TYPE_CHECKING:
    from envweave.server.stream import Receive, Scope, Send

OPEN_PATHS = ("/health",)
"""What answers without a token: a load balancer has none."""


class Door:
    """ASGI middleware around everything the server offers."""

    def __init__(self, app: Any, settings: Settings, stream: Any) -> None:
        """What comes to `/ws` goes straight to `stream`: the layers of a web framework would cost each message anew."""
        self._app = app
        self._stream = stream
        self._token = settings.token.encode() if settings.token else None
        self._origins = settings.origins
        self._most = settings.max_message_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        refusal = self._refusal(scope, headers)
        if refusal is None:
            is_stream = scope["type"] == "websocket" and scope["path"].rstrip("/") == "/ws"
            await (self._stream if is_stream else self._app)(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal[1].message})
        else:
            await refuse(send, *refusal)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, EnvWeaveError] | None:
        if self._token is not None and scope["path"] not in OPEN_PATHS and not self._has_token(headers):
            return 401, UnauthorizedError("the token is missing or wrong", "send `Authorization: Bearer <token>`")
        origin = headers.get(b"origin")
        if origin is not None and not self._welcome(origin.decode("latin-1"), headers, scope):
            return 403, UnauthorizedError(f"the origin {origin.decode('latin-1')!r:.80} is not welcome", "--origin URL")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            return 400, ProtocolError("content-length is not a number")
        if int(length) > self._most:
            return 413, ProtocolError(f"a body of {int(length)} bytes, the limit is {self._most}")
        return None

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        return hmac.compare_digest(given.strip(), self._token or b"") and kind.lower() == b"bearer"

    def _welcome(self, origin: str, headers: dict[bytes, bytes], scope: Scope) -> bool:
        """A page of the server itself, or one of an origin that the operator named."""
        if "*" in self._origins or origin.rstrip("/") in self._origins:
            return True
        try:
            return urlsplit(origin).netloc == headers.get(b"host", b"").decode("latin-1") != ""
        except ValueError:
            return False


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

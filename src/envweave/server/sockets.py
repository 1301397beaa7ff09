"""uvicorn's WebSocket, which can lend its connection to the express between two messages."""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from envweave.server.express import AVAILABLE, Express, Returned, Serve
from envweave.server.frames import whole_frames

log = logging.getLogger(__name__)

EXTENSION = "envweave"
"""Under this name the application finds the socket among the scope's extensions."""

NEEDED = (
    "close_sent",
    "conn",
    "disconnected",
    "frames",
    "handshake_complete",
    "handshake_initiated",
    "queue",
    "read_paused",
    "schedule_ping",
    "scheme",
    "transport",
)
"""Attributes of uvicorn's WebSocket protocol that lending uses."""


def can_lend(protocol: object, needed: tuple[str, ...]) -> bool:
    """Whether a connection can be lent: this system has epoll, and this uvicorn has the attributes in `needed`.

    Call it once for each connection, after uvicorn's own `__init__`. A connection that cannot be lent is served by
    uvicorn alone.
    """
    missing = tuple(name for name in needed if not hasattr(protocol, name))
    if missing:
        _warn_once(missing)
    return AVAILABLE and not missing


@cache
def _warn_once(missing: tuple[str, ...]) -> None:
    log.warning("no fast path for steps: uvicorn %s lacks %s", uvicorn.__version__, ", ".join(missing))


class LendingSocket(WebSocketsSansIOProtocol):
    """Everything but the quick steps stays uvicorn's matter: handshake, pings, fragments, closing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._can_lend = can_lend(self, NEEDED)
        self._aligned = True
        """Whether all that was read so far ended with a whole frame."""
        self._lent: asyncio.Future[Returned] | None = None
        self._express: Express | None = None

    async def run_asgi(self) -> None:
        if self._can_lend:
            extensions: Any = self.scope["extensions"]
            extensions[EXTENSION] = self
        await super().run_asgi()

    def data_received(self, data: bytes) -> None:
        if not self._can_lend:
            super().data_received(data)
            return
        if self.handshake_initiated:
            self._aligned = self._aligned and whole_frames(data)
        super().data_received(data)
        if not self.handshake_complete:
            self._aligned = not self.conn.reader.buffer

    @property
    def lendable(self) -> bool:
        """Between two messages, with nothing half read or half written, and without TLS."""
        return (
            self._aligned
            and not self.frames
            and self.scheme == "ws"
            and self.queue.empty()
            and not (self.close_sent or self.disconnected or self.transport.is_closing())
            and self.transport.get_write_buffer_size() == 0
        )

    async def lend(self, express: Express, serve: Serve) -> bool:
        """Let the express serve until it is back here; False if a step that it began is still running."""
        self.transport.pause_reading()
        self.read_paused = True
        self._express = express
        self._lent = express.lend(self.transport.get_extra_info("socket").fileno(), serve)
        try:
            returned = await self._lent
        except asyncio.CancelledError:
            express.recall(self._lent)
            raise
        finally:
            self._lent = None
        if returned.lost:
            self.transport.abort()
            return True
        if returned.unsent and not self.transport.is_closing():
            self.transport.write(returned.unsent)
        if returned.unread:
            self.data_received(returned.unread)
        if self.queue.empty() and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()
        return not returned.hung

    def recall(self) -> None:
        """End the lending now."""
        if self._lent is not None and self._express is not None:
            self._express.recall(self._lent)

    def send_keepalive_ping(self) -> None:
        if self._lent is None:
            super().send_keepalive_ping()
        else:  # it is alive as long as it sends steps, and comes back when it does not
            self.schedule_ping()

    def shutdown(self) -> None:
        self.recall()
        super().shutdown()

"""uvicorn's WebSocket, which can lend its connection to the express between two messages."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from envweave.server.express import Express, Returned, Serve
from envweave.server.frames import whole_frames

EXTENSION = "envweave"
"""Under this name the application finds the socket among the scope's extensions."""


class LendingSocket(WebSocketsSansIOProtocol):
    """Everything but the quick steps stays uvicorn's matter: handshake, pings, fragments, closing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._aligned = True
        """Whether all that was read so far ended with a whole frame."""
        self._lent: asyncio.Future[Returned] | None = None
        self._express: Express | None = None

    async def run_asgi(self) -> None:
        extensions: Any = self.scope["extensions"]
        extensions[EXTENSION] = self
        await super().run_asgi()

    def data_received(self, data: bytes) -> None:
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

"""A WebSocket that hands on what it receives in the very moment.

The usual way, a task that awaits `recv` and wakes another one, costs two turns of the event loop for each reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.frames import DATA_OPCODES, Frame
from websockets.protocol import State

Listener = Callable[[bytes], None]


class Socket(ClientConnection):
    """Can be used as any other; after `listen`, messages go to a function and no longer to `recv`."""

    _listener: Listener | None = None

    def listen(self, listener: Listener) -> None:
        """Give each message that comes from now on to `listener`, which must not raise."""
        self._listener = listener
        self._parts: list[bytes] = []

    def process_event(self, event: Any) -> None:
        """Called for each frame, as soon as it has come."""
        if self._listener is None or not isinstance(event, Frame) or event.opcode not in DATA_OPCODES:
            super().process_event(event)
            return
        data = event.data if isinstance(event.data, bytes) else bytes(event.data)
        if not event.fin or self._parts:
            self._parts.append(data)
            if not event.fin:
                return
            data, self._parts = b"".join(self._parts), []
        self._listener(data)

    def write(self, data: bytes) -> None:
        """Send a text message without waiting, or not at all if the connection is going: `ended` tells that.

        Nothing is held back while the network is slow. Whoever has one call under way at a time cannot pile up much.
        """
        if self.protocol.state is State.OPEN:
            self.protocol.send_text(data)
            self.send_data()

    async def ended(self) -> tuple[frozenset[int], str]:
        """Wait for the end of the connection; gives the close codes of both sides and the reason."""
        await self.wait_closed()
        end = self.protocol.close_exc
        closes = [close for close in (end.rcvd, end.sent) if close is not None]
        return frozenset(int(close.code) for close in closes), next((c.reason for c in closes if c.reason), "")

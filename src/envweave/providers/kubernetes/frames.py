"""WebSocket frames as Kubernetes carries a port in them: the first byte of a message is the number of its channel."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

DATA, ERROR = 0, 1
"""The channels of the only port: what is carried, and what went wrong."""

_CONTINUED, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x2, 0x8, 0x9, 0xA
_FINAL, _MASKED = 0x80, 0x80
_SHORT, _TWO_BYTES, _EIGHT_BYTES = 125, 126, 127


def data_frame(payload: bytes) -> bytes:
    return _frame(_BINARY, bytes((DATA,)) + payload)


def close_frame() -> bytes:
    return _frame(_CLOSE, struct.pack("!H", 1000))


class Reader:
    """Takes bytes as they come. `messages` gives what is complete; `replies` is what has to be sent back."""

    def __init__(self) -> None:
        self.closed = False
        """The other side has said that it is the end."""
        self.replies = b""
        self._bytes = bytearray()
        self._channel: int | None = None
        self._known: set[int] = set()

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Channel and content of each piece. The first message of a channel only names its port and is left out."""
        while not self.closed and (found := self._take()) is not None:
            first, payload = found
            match first & 0x0F:
                case 0x2 | 0x0 as opcode:
                    yield from self._piece(opcode, payload, bool(first & _FINAL))
                case 0x8:
                    self.closed = True
                case 0x9:
                    self.replies += _frame(_PONG, payload)
                case _:
                    pass  # answers to pings, which we do not send, and text, which nobody does

    def _piece(self, opcode: int, payload: bytes, final: bool) -> Iterator[tuple[int, bytes]]:
        if opcode == _BINARY:
            self._channel = payload[0] if payload else None
            payload = payload[1:]
        channel = self._channel
        if final:
            self._channel = None
        if channel is None:
            return
        if channel in self._known:
            yield channel, payload
        elif final:
            self._known.add(channel)

    def _take(self) -> tuple[int, bytes] | None:
        """The first byte and the payload of the next whole frame."""
        held = self._bytes
        if len(held) < 2:
            return None
        length, start = held[1] & 0x7F, 2
        if length == _TWO_BYTES:
            start = 4
        elif length == _EIGHT_BYTES:
            start = 10
        if len(held) < start:
            return None
        if start > 2:
            length = int.from_bytes(held[2:start], "big")
        if len(held) < start + length:
            return None
        first, payload = held[0], bytes(held[start : start + length])
        del held[: start + length]
        return first, payload


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size <= _SHORT:
        head = struct.pack("!BB", _FINAL | opcode, _MASKED | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _FINAL | opcode, _MASKED | _TWO_BYTES, size)
    else:
        head = struct.pack("!BBQ", _FINAL | opcode, _MASKED | _EIGHT_BYTES, size)
    mask = os.urandom(4)
    return head + mask + _masked(payload, mask)


def _masked(payload: bytes, mask: bytes) -> bytes:
    """Each byte with its byte of the mask, by one operation on whole numbers: fast without an array package."""
    size = len(payload)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")

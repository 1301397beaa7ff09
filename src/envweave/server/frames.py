"""The simplest WebSocket frame (RFC 6455, 5.2): one whole text message, as a client sends it and as a server does."""

from __future__ import annotations

from websockets.frames import apply_mask  # type: ignore[attr-defined]  # in C where that was built

_WHOLE_TEXT = 0x81
_MASKED = 0x80


def opened_frame(data: bytes) -> bytes | None:
    """The text in a client's frame, if the data are exactly one whole text message; else None."""
    if len(data) < 6 or data[0] != _WHOLE_TEXT or not data[1] & _MASKED:
        return None
    length, start = data[1] & 0x7F, 2
    if length == 126:
        length, start = int.from_bytes(data[2:4]), 4
    elif length == 127:
        return None
    if len(data) != start + 4 + length:
        return None
    return apply_mask(data[start + 4 :], data[start : start + 4])


def closed_frame(text: bytes) -> bytes:
    """A server's frame around a text."""
    length = len(text)
    if length < 126:
        return b"\x81%c%b" % (length, text)
    if length < 65536:
        return b"\x81\x7e%b%b" % (length.to_bytes(2), text)
    return b"\x81\x7f%b%b" % (length.to_bytes(8), text)


def whole_frames(data: bytes) -> bool:
    """Whether the data are nothing but whole frames of a client."""
    at, size = 0, len(data)
    while at + 2 <= size:
        length, at = data[at + 1] & 0x7F, at + 2
        if length > 125:
            width = 2 if length == 126 else 8
            length, at = int.from_bytes(data[at : at + width]), at + width
        at += 4 + length
    return at == size

"""Messages over a stream socket: JSON, bytes beside it, and descriptors. Never pickle.

A frame is two lengths, a JSON object, and raw bytes. Whoever reads says how large a frame may be before memory is
taken for it, and anything that is not a frame is a `BadFrame`: the reader ends the conversation.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Iterable
from typing import Any

LENGTHS = struct.Struct("<II")
CHUNK = 1 << 16
_ROOM = socket.CMSG_SPACE(8 * 4)
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

Message = dict[str, Any]
Frame = tuple[Message, bytes]


def frame_bytes(value_bytes: int) -> int:
    """How large a frame from a worker may be: more than a value, for calls of tools carry their arguments."""
    return (1 << 20) + 16 * value_bytes


class BadFrame(Exception):  # noqa: N818  (what it is, not what went wrong with us)
    """Bytes that are no frame, or a larger one than the reader takes."""


class Hangup(Exception):  # noqa: N818
    """The other end is closed."""


def _refuse(name: str) -> Any:
    raise ValueError(name)  # NaN and its like are no JSON


_write = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_read = json.JSONDecoder(parse_constant=_refuse).decode


def encode(message: Message, blob: bytes = b"") -> bytes:
    """The message as bytes; lone surrogates and all other text survive, for JSON here is ASCII."""
    text = _write(message).encode()
    return LENGTHS.pack(len(text), len(blob)) + text + blob


class Decoder:
    """Finds frames in what has been read, and keeps the descriptors that came with it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self.descriptors: deque[int] = deque()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Frame | None:
        """The next whole frame, or None if it has not all arrived."""
        buffer = self._buffer
        if len(buffer) < LENGTHS.size:
            return None
        text, blob = LENGTHS.unpack_from(buffer)
        if text + blob > self._limit:
            raise BadFrame(f"a frame of {text + blob} bytes")
        start, end = LENGTHS.size, LENGTHS.size + text + blob
        if len(buffer) < end:
            return None
        try:
            message = _read(buffer[start : start + text].decode("ascii"))
        except (ValueError, RecursionError):
            raise BadFrame("a frame without JSON") from None
        if not isinstance(message, dict):
            raise BadFrame("a frame without an object")
        found = bytes(buffer[start + text : end])
        del buffer[:end]
        return message, found


class Channel:
    """One end of a conversation, for a process that has nothing else to wait for."""

    def __init__(self, sock: socket.socket, *, limit: int) -> None:
        self.sock = sock
        self._decoder = Decoder(limit)

    def send(self, message: Message, blob: bytes = b"") -> None:
        self.sock.sendall(encode(message, blob))

    def receive(self) -> Frame:
        """Wait for the next message. Raises `Hangup` where there will be none."""
        while (frame := self._decoder.next()) is None:
            self.fill()
        return frame

    def ready(self) -> Frame | None:
        """A message that is here already."""
        return self._decoder.next()

    def wait(self) -> None:
        """Until there is something to read; may be interrupted without losing any of it."""
        select.select([self.sock], [], [])

    def fill(self) -> None:
        """Read what there is, at least one byte."""
        data, found = read_with_descriptors(self.sock)
        self._decoder.descriptors.extend(found)
        if not data:
            raise Hangup
        self._decoder.feed(data)

    def take(self, count: int) -> list[int]:
        """Descriptors that came with the messages so far."""
        if len(self._decoder.descriptors) < count:
            raise BadFrame("descriptors are missing")
        return [self._decoder.descriptors.popleft() for _ in range(count)]


def read_with_descriptors(sock: socket.socket) -> tuple[bytes, list[int]]:
    """One read, and the descriptors that came with it; they are not inherited by programs that are started."""
    data, extra, _, _ = sock.recvmsg(CHUNK, _ROOM, _CLOSE_ON_EXEC)
    found = array.array("i")
    for level, kind, value in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(value[: len(value) - len(value) % found.itemsize])
    return data, list(found)


def send_as(sock: socket.socket, message: Message, pid: int) -> None:
    """Send a small message in the name of another process, which the receiver is told in its own numbers."""
    credentials = struct.pack("iII", pid, os.getuid(), os.getgid())
    sock.sendmsg([encode(message)], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)])


def close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:  # closed already
            pass

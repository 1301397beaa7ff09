"""Minimal client connections, the same for both servers, so that the servers are measured and not the clients."""

from __future__ import annotations

import asyncio
import base64
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar, cast

from bench.wire.servers import HOST

TIMEOUT = 30.0
"""Seconds that a single answer may take."""
CONCURRENT = 32
"""Connections that are opened at the same time."""

T = TypeVar("T")


async def open_many(count: int, open_one: Callable[[], Awaitable[T]]) -> list[T]:
    """Open `count` connections, a few at a time, so that no server's backlog overflows."""
    connections: list[T] = []
    while len(connections) < count:
        missing = min(CONCURRENT, count - len(connections))
        connections += await asyncio.gather(*(open_one() for _ in range(missing)))
    return connections


class RawConnection(asyncio.Protocol, ABC):
    """A connection. `receive` is called with the body of each answer, and may be replaced."""

    def __init__(self) -> None:
        self.receive: Callable[[bytes], Any] = _ignore
        self.transport: asyncio.Transport
        self.failed: Callable[[Exception], Any] = _ignore
        """Called with the error if the server ends the connection or refuses a request."""
        self._loop = asyncio.get_running_loop()
        self._up: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._buffer = b""

    async def open(self, port: int) -> Self:
        await self._loop.create_connection(lambda: self, HOST, port)
        await asyncio.wait_for(self._up, TIMEOUT)
        return self

    async def request(self, message: bytes) -> bytes:
        """Send what `frame` returned and wait for one answer."""
        answer = self._loop.create_future()
        before = self.receive, self.failed
        self.receive, self.failed = answer.set_result, answer.set_exception
        try:
            self.transport.write(message)
            return await asyncio.wait_for(answer, TIMEOUT)
        finally:
            self.receive, self.failed = before

    async def closed(self) -> None:
        """Wait at most a second until the server closes, then close."""
        await asyncio.wait([self._lost], timeout=1.0)
        self.abort()

    def abort(self) -> None:
        self.failed = _ignore
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set_result(None)
        self._fail(exc or ConnectionError("the server ended the connection"))

    def _fail(self, error: Exception) -> None:
        if self._up.done():
            self.failed(error)
        else:
            self._up.set_exception(error)

    @abstractmethod
    def _start(self) -> None:
        """Called when the connection is made. Completes `_up` or sends a handshake."""


class RawWebSocket(RawConnection):
    """Sends text frames with a mask of zeros, without compression. Answers pings."""

    def __init__(self, *, subprotocol: str = "") -> None:
        super().__init__()
        self._subprotocol = subprotocol
        self._parts = b""

    @staticmethod
    def frame(body: bytes, *, opcode: int = 1) -> bytes:
        """The bytes of a frame."""
        size = len(body)
        if size < 126:
            head = bytes((0x80 | opcode, 0x80 | size))
        elif size < 2**16:
            head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
        return head + bytes(4) + body

    def _start(self) -> None:
        lines = [
            "GET /ws HTTP/1.1",
            f"Host: {HOST}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            "Sec-WebSocket-Version: 13",
        ]
        if self._subprotocol:
            lines.append(f"Sec-WebSocket-Protocol: {self._subprotocol}")
        self.transport.write("\r\n".join([*lines, "", ""]).encode())

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        if not self._up.done():
            head, end, rest = buffer.partition(b"\r\n\r\n")
            if not end:
                self._buffer = buffer
                return
            if b" 101 " not in head[:16]:
                self._fail(ConnectionError(f"no WebSocket: {head[:200]!r}"))
                return
            self._up.set_result(None)
            buffer = rest
        self._buffer = self._read(buffer)

    def _read(self, buffer: bytes) -> bytes:
        """Pass on all complete frames. Returns the rest."""
        start, end = 0, len(buffer)
        while end - start >= 2:
            first, size, body = buffer[start], buffer[start + 1] & 127, start + 2
            if size == 126:
                body += 2
            elif size == 127:
                body += 8
            if body > end:
                break
            if size > 125:
                size = int.from_bytes(buffer[start + 2 : body], "big")
            if body + size > end:
                break
            start = body + size
            if first == 0x81:
                self.receive(buffer[body:start])
            else:
                self._receive_other(first & 0x80, first & 15, buffer[body:start])
        return buffer[start:]

    def _receive_other(self, final: int, opcode: int, body: bytes) -> None:
        if opcode == 9:
            self.transport.write(self.frame(body, opcode=10))
        elif opcode == 8:
            self.transport.write(self.frame(body[:2], opcode=8))
        elif opcode in (0, 1):
            self._parts += body
            if final:
                whole, self._parts = self._parts, b""
                self.receive(whole)


class RawHTTP(RawConnection):
    """Sends one request after the other on a connection that is kept alive."""

    @staticmethod
    def frame(body: bytes, path: str, **headers: str) -> bytes:
        """The bytes of a POST. `x_envweave_session="…"` sets a header."""
        lines = [f"POST {path} HTTP/1.1", f"Host: {HOST}", "Content-Type: application/json"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body

    def _start(self) -> None:
        self._up.set_result(None)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        self._buffer = b""
        head, end, rest = buffer.partition(b"\r\n\r\n")
        _, _, after = head.lower().partition(b"content-length:")
        size = int(after.split(b"\r\n", 1)[0]) if after else 0
        if not end or len(rest) < size:
            self._buffer = buffer
        elif buffer.startswith(b"HTTP/1.1 2"):
            self.receive(rest)
        else:
            self._fail(ConnectionError(f"the server refused: {buffer[:500]!r}"))


def _ignore(_: Any) -> None:
    pass

"""Connections as thin as they can be, the same for both servers, so that it is the servers that are measured."""

from __future__ import annotations

import asyncio
import base64
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar, cast

from envweave.bench.wire.servers import HOST

TIMEOUT = 30.0
"""Seconds that any single answer may take."""
AT_ONCE = 32
"""Connections that are opened side by side."""

T = TypeVar("T")


async def opened(count: int, open_one: Callable[[], Awaitable[T]]) -> list[T]:
    """So many of a kind, a few at a time: no server has to fear for its backlog."""
    found: list[T] = []
    while len(found) < count:
        found += await asyncio.gather(*(open_one() for _ in range(min(AT_ONCE, count - len(found)))))
    return found


class Link(asyncio.Protocol, ABC):
    """A connection. `receive` gets the body of each answer; swap it at will."""

    def __init__(self) -> None:
        self.receive: Callable[[bytes], Any] = _ignore
        self.transport: asyncio.Transport
        self.failed: Callable[[Exception], Any] = _ignore
        """Gets the reason if the server ends the connection, or answers with a failure."""
        self._loop = asyncio.get_running_loop()
        self._up: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._buffer = b""

    async def open(self, port: int) -> Self:
        await self._loop.create_connection(lambda: self, HOST, port)
        await asyncio.wait_for(self._up, TIMEOUT)
        return self

    async def ask(self, message: bytes) -> bytes:
        """Send what `framed` gave and wait for one answer."""
        answer = self._loop.create_future()
        before = self.receive, self.failed
        self.receive, self.failed = answer.set_result, answer.set_exception
        try:
            self.transport.write(message)
            return await asyncio.wait_for(answer, TIMEOUT)
        finally:
            self.receive, self.failed = before

    async def closed(self) -> None:
        """Wait until the server has closed, at most a second; then close."""
        await asyncio.wait([self._lost], timeout=1.0)
        self.abort()

    def abort(self) -> None:
        self.failed = _ignore
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._greet()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set_result(None)
        self._fail(exc or ConnectionError("the server ended the connection"))

    def _fail(self, error: Exception) -> None:
        if self._up.done():
            self.failed(error)
        else:
            self._up.set_exception(error)

    @abstractmethod
    def _greet(self) -> None:
        """The connection is made: be up, or say what it takes."""


class WebSocket(Link):
    """Text frames, pings answered, no compression, a mask of zeros."""

    def __init__(self, *, subprotocol: str = "") -> None:
        super().__init__()
        self._subprotocol = subprotocol
        self._parts = b""

    @staticmethod
    def framed(body: bytes, *, opcode: int = 1) -> bytes:
        """A frame to send."""
        size = len(body)
        if size < 126:
            head = bytes((0x80 | opcode, 0x80 | size))
        elif size < 2**16:
            head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
        return head + bytes(4) + body

    def _greet(self) -> None:
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
        """Hand out whole frames; gives what is left."""
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
                self._other(first & 0x80, first & 15, buffer[body:start])
        return buffer[start:]

    def _other(self, final: int, opcode: int, body: bytes) -> None:
        if opcode == 9:
            self.transport.write(self.framed(body, opcode=10))
        elif opcode == 8:
            self.transport.write(self.framed(body[:2], opcode=8))
        elif opcode in (0, 1):
            self._parts += body
            if final:
                whole, self._parts = self._parts, b""
                self.receive(whole)


class HTTP(Link):
    """Requests on a connection that is kept alive, one after the other."""

    @staticmethod
    def framed(body: bytes, path: str, **headers: str) -> bytes:
        """A POST to send; `x_envweave_session="…"` is a header."""
        lines = [f"POST {path} HTTP/1.1", f"Host: {HOST}", "Content-Type: application/json"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body

    def _greet(self) -> None:
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

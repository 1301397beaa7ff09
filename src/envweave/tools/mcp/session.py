"""A session with one MCP server. No other module uses the `mcp` package as a client.

anyio requires that a context is entered and left in the same task, so each session has its own task. Calls come from
other tasks of the same event loop.

Secrets of the server are hidden in log lines and tracebacks of the HTTP library and of the `mcp` package's HTTP client,
as far as `McpServer.redacted` knows them. Not covered: handlers of others that log requests by themselves.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Tool

from envweave.core.log_redaction import redact_logs
from envweave.tools.mcp.servers import McpServer

NO_REASON = "it has ended"
"""The reason if a process ended and wrote nothing."""
_MAX_EVENT_BYTES = 64 * 2**20
_MAX_PAGES = 100
_EXIT_TIMEOUT = 10.0
"""Seconds; a process that does not end when its input is closed is killed before that."""
_CLOSE_TIMEOUT = 2.0
"""Seconds to tell a web server that the session is over."""
_STDERR_BYTES = 4096
_LOGGERS = (
    "httpx2",
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
    "mcp.client.streamable_http",
)
_SERVER: ContextVar[McpServer | None] = ContextVar("envweave_mcp_server", default=None)
"""The server of the current call."""


def _redact(text: str) -> str:
    server = _SERVER.get()
    return server.redacted(text) if server else text


class McpSession:
    """Opened by `open`. Ends with `close`, or when the server ends; then the future `ended` is done."""

    def __init__(self, server: McpServer, mode: str) -> None:
        loop = asyncio.get_running_loop()
        self._server = server
        self._mode = mode
        self._closing = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._ready: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.invalid_messages = 0
        """How many times the server sent something that is not a message."""
        self.failure: BaseException | None = None
        self.tools: list[Tool] = []
        self._stderr = _StderrTail(loop)
        self._client: Client
        self._task: asyncio.Task[None]

    @classmethod
    async def open(cls, server: McpServer, timeout: float, mode: str) -> McpSession:
        """Connect and list the tools; `mode` is how to agree on a protocol version.

        Raises `TimeoutError`, `EOFError` with the last line of stderr if the process ended, or what `mcp` raised.
        """
        redact_logs(_LOGGERS, _redact)
        session = cls(server, mode)
        session._task = asyncio.create_task(session._run())
        try:
            await asyncio.wait({session._ready, session._task}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            late = not session._task.done()
            if not session._ready.done():
                await session.close()
        if session._ready.done():
            return session
        if late:
            raise TimeoutError
        if session.last_error_line():
            raise EOFError(session.last_error_line())
        raise session.failure if isinstance(session.failure, Exception) else EOFError(NO_REASON)

    def last_error_line(self) -> str:
        """Return the last line that the process wrote to stderr."""
        return "".join(self._stderr.text.splitlines()[-1:])

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        _SERVER.set(self._server)  # requests are sent in the context of the caller
        return await self._client.call_tool(name, arguments)

    async def probe(self) -> None:
        """Send a request that every server answers."""
        _SERVER.set(self._server)
        await self._client.session.list_tools()

    async def close(self) -> None:
        """Disconnect; a process that was started is gone afterwards."""
        self._closing.set()
        if not self._ready.done():
            self._scope.cancel()
        await asyncio.wait({self._task}, timeout=_CLOSE_TIMEOUT if self._server.url else _EXIT_TIMEOUT)
        if not self._task.done():
            self._scope.cancel()
            await asyncio.wait({self._task}, timeout=_CLOSE_TIMEOUT)
        self.set_ended()
        self._stderr.close()

    async def _run(self) -> None:
        _SERVER.set(self._server)
        try:
            with self._scope:
                options = {"mode": self._mode, "message_handler": self._count_invalid, "cache": None}
                async with Client(self._transport(), **options) as self._client:
                    self.tools = await self._list_tools()
                    self._ready.set_result(None)
                    await self._closing.wait()
        except BaseException as error:  # exception groups of all kinds; the session is over
            while isinstance(error, BaseExceptionGroup) and error.exceptions:
                error = error.exceptions[0]
            self.failure = error
        finally:
            self.set_ended()

    def set_ended(self) -> None:
        """Mark the session as ended, whoever noticed it."""
        if not self.ended.done():
            self.ended.set_result(None)

    async def _list_tools(self) -> list[Tool]:
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    async def _count_invalid(self, message: Any) -> None:
        self.invalid_messages += isinstance(message, Exception)

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        server = self._server
        if server.url:
            timeout = httpx2.Timeout(30.0, read=None)  # calls have their own timeout
            async with (
                httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout) as http,
                streamable_http_client(server.url, http_client=http, max_sse_event_size=_MAX_EVENT_BYTES) as streams,
            ):
                yield _WatchedStream(streams[0], self), streams[1]
        else:
            command = StdioServerParameters(
                command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd
            )
            with self._stderr.writer() as log:
                async with stdio_client(command, errlog=log) as (read, write):
                    log.close()  # the process has its own copy
                    yield _WatchedStream(read, self), write


class _WatchedStream:
    """A stream that marks its session as ended when it ends."""

    def __init__(self, stream: Any, session: McpSession) -> None:
        self._stream = stream
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._session.set_ended()
            raise

    def __aiter__(self) -> _WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _WatchedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


class _StderrTail:
    """The end of what a process writes to stderr, read on an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._bytes = b""
        self._reader = -1
        self._loop = loop

    def writer(self) -> Any:
        """Return a file for the process to write to."""
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop.add_reader(self._reader, self._read)
        return os.fdopen(writer, "w")

    @property
    def text(self) -> str:
        return self._bytes.decode(errors="replace").strip()

    def _read(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._reader, 2**16)
            self._bytes = (self._bytes + data)[-_STDERR_BYTES:]
            if not data:
                self._stop()

    def _stop(self) -> None:
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1

    def close(self) -> None:
        """Read what has arrived, and stop."""
        if self._reader >= 0:
            self._read()
        self._stop()

"""A session with one MCP server. No other module uses the `mcp` package as a client.

anyio requires that a context is entered and left in the same task, so each session has its own task. Calls come from
other tasks of the same event loop.

Secrets of the server are hidden in log lines and tracebacks of the HTTP library and of the `mcp` package's HTTP client,
as far as `McpServer.redacted` knows them. Not covered: handlers of others that log requests by themselves.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TextIO

import anyio
import httpx2
from anyio.abc import ObjectReceiveStream
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
        self._scope = anyio.CancelScope()
        self._ready: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.invalid_messages = 0
        """How many times the server sent something that is not a message."""
        self.failure: BaseException | None = None
        self.tools: list[Tool] = []
        self._stderr = b""
        self._stderr_reader = -1
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

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        _SERVER.set(self._server)  # requests are sent in the context of the caller
        return await self._client.call_tool(name, arguments)

    async def probe(self) -> None:
        """Send a request that every server answers."""
        _SERVER.set(self._server)
        await self._client.session.list_tools()

    async def close(self) -> None:
        """Disconnect; a process that was started is gone afterwards."""
        self.set_ended()
        if not self._ready.done():
            self._scope.cancel()
        await asyncio.wait({self._task}, timeout=_CLOSE_TIMEOUT if self._server.url else _EXIT_TIMEOUT)
        if not self._task.done():
            self._scope.cancel()
            await asyncio.wait({self._task}, timeout=_CLOSE_TIMEOUT)

    def set_ended(self) -> None:
        """Mark the session as ended, which disconnects it."""
        if not self.ended.done():
            self.ended.set_result(None)

    async def _run(self) -> None:
        _SERVER.set(self._server)
        try:
            with self._scope:
                options = {"mode": self._mode, "message_handler": self._count_invalid, "cache": None}
                async with Client(self._transport(), **options) as self._client:
                    self.tools = await self._list_tools()
                    self._ready.set_result(None)
                    await asyncio.wait({self.ended})
        except BaseException as error:  # exception groups of all kinds; the session is over
            while isinstance(error, BaseExceptionGroup) and error.exceptions:
                error = error.exceptions[0]
            self.failure = error
        finally:
            self.set_ended()

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
            with self._stderr_pipe() as log:
                async with stdio_client(command, errlog=log) as (read, write):
                    log.close()  # the process has its own copy
                    yield _WatchedStream(read, self), write

    @contextmanager
    def _stderr_pipe(self) -> Iterator[TextIO]:
        """A file for the process to write to. Its end is kept for messages."""
        self._stderr_reader, writer = os.pipe()
        os.set_blocking(self._stderr_reader, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._stderr_reader, self._read_stderr)
        try:
            with os.fdopen(writer, "w") as log:
                yield log
        finally:
            self._read_stderr()
            loop.remove_reader(self._stderr_reader)
            os.close(self._stderr_reader)
            self._stderr_reader = -1

    def _read_stderr(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._stderr_reader, 2**16)
            self._stderr = (self._stderr + data)[-_STDERR_BYTES:]
            if not data:  # the end would be reported again and again
                asyncio.get_running_loop().remove_reader(self._stderr_reader)

    def last_error_line(self) -> str:
        """Return the last line that the process wrote to stderr."""
        if self._stderr_reader >= 0:
            self._read_stderr()
        return "".join(self._stderr.decode(errors="replace").strip().splitlines()[-1:])


class _WatchedStream(ObjectReceiveStream[Any]):
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

    async def aclose(self) -> None:
        await self._stream.aclose()

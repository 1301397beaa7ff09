"""An open connection to one MCP server. Here the `mcp` package is used as a client, and nowhere else.

anyio wants a context to be entered and left in one task, so each connection has a task of its own that does nothing
else. Calls come from other tasks of the same loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Tool

from envweave.tools.mcp.hiding import IN_USE, guard_logs
from envweave.tools.mcp.servers import Server
from envweave.tools.mcp.tail import Tail

_LARGEST = 64 * 2**20
"""Bytes of one event of a server, which may be a picture."""
_PAGES = 100
NO_WORDS = "it has ended"
"""All that is known of a process that has said nothing."""
_LEAVES_WITHIN = 10.0
"""Seconds; a process that does not end by itself when its input is closed is killed before that."""
_TOLD_WITHIN = 2.0
"""Seconds for a web server to hear that its session is over."""


class Link:
    """Opened by `open`, ended by `leave`, or by the server: then `gone` is done."""

    def __init__(self, server: Server, mode: str) -> None:
        self._server = server
        self._mode = mode
        self._leave = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.garbage = 0
        """How many times the server has sent what is no message."""
        self.errors = Tail()
        self.failure: BaseException | None = None
        self.tools: list[Tool] = []
        self._client: Client
        self._owner: asyncio.Task[None]

    @classmethod
    async def open(cls, server: Server, timeout: float, mode: str) -> Link:
        """Connect and ask for the tools; `mode` is how to agree on a version of the protocol.

        Raises whatever was in the way: `TimeoutError`, `EOFError` with the last words of a process that has left.
        """
        guard_logs()
        link = cls(server, mode)
        link._owner = asyncio.create_task(link._own())
        try:
            await asyncio.wait({link._ready, link._owner}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            late = not link._owner.done()
            if not link._ready.done():
                await link.leave()
        if link._ready.done():
            return link
        if late:
            raise TimeoutError
        if link.last_words():
            raise EOFError(link.last_words())
        raise link.failure if isinstance(link.failure, Exception) else EOFError(NO_WORDS)

    def last_words(self) -> str:
        """The last line that the process has written to its standard error."""
        return "".join(self.errors.text.splitlines()[-1:])

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        IN_USE.set(self._server)  # the package sends in the context of whoever asks
        return await self._client.call_tool(name, arguments)

    async def probe(self) -> None:
        """Ask for something that every server knows."""
        IN_USE.set(self._server)
        await self._client.session.list_tools()

    async def leave(self) -> None:
        """Disconnect; the process of the server is gone afterwards."""
        self._leave.set()
        if not self._ready.done():
            self._scope.cancel()
        await asyncio.wait({self._owner}, timeout=_TOLD_WITHIN if self._server.url else _LEAVES_WITHIN)
        if not self._owner.done():
            self._scope.cancel()
            await asyncio.wait({self._owner}, timeout=_TOLD_WITHIN)
        self.set_gone()
        self.errors.close()

    async def _own(self) -> None:
        IN_USE.set(self._server)
        try:
            with self._scope:
                options = {"mode": self._mode, "message_handler": self._hear, "cache": None}
                async with Client(self._transport(), **options) as self._client:
                    self.tools = await self._listed()
                    self._ready.set_result(None)
                    await self._leave.wait()
        except BaseException as error:  # groups of errors of all kinds: what matters is that it is over
            self.failure = _first(error)
        finally:
            self.set_gone()

    def set_gone(self) -> None:
        """It has ended, whoever has noticed."""
        if not self.gone.done():
            self.gone.set_result(None)

    async def _listed(self) -> list[Tool]:
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    async def _hear(self, message: Any) -> None:
        self.garbage += isinstance(message, Exception)

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        server = self._server
        if server.url:
            timeout = httpx2.Timeout(30.0, read=None)  # calls have a clock of their own
            async with (
                httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout) as http,
                streamable_http_client(server.url, http_client=http, max_sse_event_size=_LARGEST) as (read, write),
            ):
                yield Watched(read, self), write
        else:
            how = StdioServerParameters(
                command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd
            )
            with self.errors.writer() as log:
                async with stdio_client(how, errlog=log) as (read, write):
                    log.close()  # the process has its own copy
                    yield Watched(read, self), write


class Watched:
    """A stream that tells its link when it has ended."""

    def __init__(self, stream: Any, link: Link) -> None:
        self._stream = stream
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._link.set_gone()
            raise

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


def _first(error: BaseException) -> BaseException:
    """The one that matters of a group of errors."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error

"""Connect to MCP servers and use their tools."""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from envweave.core.loop import BACKGROUND
from envweave.errors import UsageError
from envweave.tools.mcp.requirement import require_mcp
from envweave.tools.mcp.servers import McpServer, read_servers
from envweave.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from envweave.tools.mcp.connection import McpConnection

_OPEN: weakref.WeakSet[McpTools] = weakref.WeakSet()


def connect_mcp(servers: Any, *, connect_timeout: float = 30.0, call_timeout: float = 60.0) -> McpTools:
    """Connect to MCP servers concurrently and return their tools.

    `servers` is a mapping by name as in `mcpServers` (`command`, `args`, `env`, `cwd`, or `url`, `headers`), a URL, or
    a list of these. A server's `prefix` is put before the names of its tools; names are converted to Python
    identifiers. Raises `UsageError` if two tools have the same name, `ToolError` if a server cannot be reached,
    `UnavailableError` without the `mcp` package.
    """
    found = read_servers(servers)
    for name, value in (("connect_timeout", connect_timeout), ("call_timeout", call_timeout)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise UsageError(f"{name} is {value!r:.80}", "use a positive number of seconds")
    require_mcp()
    tools = McpTools()
    try:
        BACKGROUND.run(tools._connect(found, connect_timeout, call_timeout))
    except BaseException:
        tools.close()
        raise
    return tools


class McpTools:
    """The tools of MCP servers. A context manager: on exit, processes that were started for it are gone.

    Calls may come from any thread, and overlap. The next call reconnects to a server that was lost.
    """

    def __init__(self) -> None:
        self.registry = ToolRegistry()
        self._connections: list[McpConnection] = []
        self._pid = os.getpid()
        _OPEN.add(self)

    async def _connect(self, servers: list[McpServer], connect_timeout: float, call_timeout: float) -> None:
        from envweave.tools.mcp.connection import McpConnection  # imports the mcp package

        limits = {"connect_timeout": connect_timeout, "call_timeout": call_timeout}
        self._connections = [McpConnection(server, **limits) for server in servers]
        listed = await asyncio.gather(*(one.tools() for one in self._connections), return_exceptions=True)
        owners: dict[str, str] = {}
        for connection, tools in zip(self._connections, listed, strict=True):
            if isinstance(tools, BaseException):
                raise tools
            for name, tool in tools:
                owner = f"{name!r} of {connection.server.name!r}"
                if tool.name in owners:
                    clash = f"two MCP tools are called {tool.name!r}: {owners[tool.name]} and {owner}"
                    raise UsageError(clash, 'give one of the servers a "prefix"')
                owners[tool.name] = owner
                self.registry.add(tool)

    def close(self) -> None:
        """Disconnect. A call that is under way raises `ToolError`. Can be called twice."""
        connections, self._connections = self._connections, []
        if connections and self._pid == os.getpid():  # a forked copy does not own them
            BACKGROUND.run(self._disconnect(connections))

    async def _disconnect(self, connections: list[McpConnection]) -> None:
        await asyncio.gather(*(one.close() for one in connections), return_exceptions=True)

    def __enter__(self) -> McpTools:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"McpTools({', '.join(one.server.name for one in self._connections)})"


@atexit.register
def _close_open() -> None:
    """Close what is still open, while the event loop runs."""
    for tools in list(_OPEN):
        with suppress(Exception):  # the interpreter exits
            tools.close()

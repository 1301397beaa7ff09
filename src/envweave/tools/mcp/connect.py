"""Connect to MCP servers and use their tools."""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from envweave.core.loop import BACKGROUND
from envweave.errors import UsageError
from envweave.tools.error import ToolError
from envweave.tools.mcp.requirement import require_mcp
from envweave.tools.mcp.servers import McpServer, read_servers
from envweave.tools.registry import ToolRegistry
from envweave.tools.schema_arguments import identifier
from envweave.tools.tool import Tool

if TYPE_CHECKING:
    import mcp_types

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
        for tools in listed:
            if isinstance(tools, BaseException):
                raise tools
        owners: dict[str, str] = {}
        for connection, tools in zip(self._connections, listed, strict=True):
            for listed_tool in tools:  # type: ignore[union-attr]
                tool = _tool(connection, listed_tool)
                owner = f"{listed_tool.name!r} of {connection.server.name!r}"
                if tool.name in owners:
                    clash = f"two MCP tools are called {tool.name!r}: {owners[tool.name]} and {owner}"
                    raise UsageError(clash, 'give one of the servers a "prefix"')
                owners[tool.name] = owner
                self.registry.add(tool)

    def close(self) -> None:
        """Disconnect. A call that is under way raises `ToolError`. Can be called twice."""
        connections, self._connections = self._connections, []
        if connections and self._pid == os.getpid():  # a forked copy does not own them
            BACKGROUND.run(_close_all(connections))

    def __enter__(self) -> McpTools:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"McpTools({', '.join(one.server.name for one in self._connections)})"


async def _close_all(connections: list[McpConnection]) -> None:
    await asyncio.gather(*(one.close() for one in connections), return_exceptions=True)


def _tool(connection: McpConnection, listed_tool: mcp_types.Tool) -> Tool:
    from envweave.tools.mcp.results import output_schema_of

    return Tool(
        name=identifier(connection.server.prefix + listed_tool.name),
        description=listed_tool.description or listed_tool.title or "",
        input_schema=listed_tool.input_schema,
        output_schema=output_schema_of(listed_tool),
        function=_function(connection, listed_tool),
    )


def _function(connection: McpConnection, listed_tool: mcp_types.Tool) -> Callable[..., Any]:
    from envweave.tools.mcp.results import text_of, value_of

    def call(**arguments: Any) -> Any:
        result = BACKGROUND.run(connection.call(listed_tool.name, arguments))
        if result.is_error:
            text = connection.server.redacted(text_of(result)) or "it failed without a message"
            raise ToolError(f"{connection.server.name}.{listed_tool.name}: {text}")
        return value_of(result, listed_tool)

    return call


@atexit.register
def _close_open() -> None:
    """Close what is still open, while the event loop runs."""
    for tools in list(_OPEN):
        with suppress(Exception):  # the interpreter exits
            tools.close()

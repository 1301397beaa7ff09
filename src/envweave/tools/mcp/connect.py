"""Connect to MCP servers, and have their tools."""

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
from envweave.tools.loose import identifier
from envweave.tools.mcp.needed import need_mcp
from envweave.tools.mcp.servers import Server, read_servers
from envweave.tools.registry import ToolRegistry
from envweave.tools.tool import Tool

if TYPE_CHECKING:
    import mcp_types

    from envweave.tools.mcp.connection import Connection

_LIVING: weakref.WeakSet[McpTools] = weakref.WeakSet()


def connect_mcp(servers: Any, *, connect_timeout: float = 30.0, call_timeout: float = 60.0) -> McpTools:
    """Connect to MCP servers, all at once, and take over their tools.

    `servers` is a mapping by name as in `mcpServers` (`command`, `args`, `env`, `cwd`, or `url`, `headers`), a URL, or
    a list of these. A server's `prefix` stands before the names of its tools; a name that is no Python identifier
    becomes one. Raises `UsageError` where two tools have one name, `ToolError` where a server cannot be reached,
    `UnavailableError` without the `mcp` package.
    """
    found = read_servers(servers)
    for name, value in (("connect_timeout", connect_timeout), ("call_timeout", call_timeout)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise UsageError(f"{name} is {value!r:.80}", "use a positive number of seconds")
    need_mcp()
    tools = McpTools()
    try:
        BACKGROUND.run(tools._connect(found, connect_timeout, call_timeout))
    except BaseException:
        tools.close()
        raise
    return tools


class McpTools:
    """The tools of some servers. A context manager: afterwards, processes that were started for it are gone.

    Calls may come from any thread, and overlap. A server that is lost is connected to again by the next call.
    """

    def __init__(self) -> None:
        self.registry = ToolRegistry()
        self._connections: list[Connection] = []
        self._pid = os.getpid()
        _LIVING.add(self)

    async def _connect(self, servers: list[Server], connect_timeout: float, call_timeout: float) -> None:
        from envweave.tools.mcp.connection import Connection  # the mcp package

        limits = {"connect_timeout": connect_timeout, "call_timeout": call_timeout}
        self._connections = [Connection(server, **limits) for server in servers]
        listed = await asyncio.gather(*(one.tools() for one in self._connections), return_exceptions=True)
        for tools in listed:
            if isinstance(tools, BaseException):
                raise tools
        owners: dict[str, str] = {}
        for connection, tools in zip(self._connections, listed, strict=True):
            for told in tools:  # type: ignore[union-attr]
                tool = _tool(connection, told)
                owner = f"{told.name!r} of {connection.server.name!r}"
                if tool.name in owners:
                    clash = f"two MCP tools are called {tool.name!r}: {owners[tool.name]} and {owner}"
                    raise UsageError(clash, 'give one of the servers a "prefix"')
                owners[tool.name] = owner
                self.registry.add(tool)

    def close(self) -> None:
        """Disconnect. Safe to call twice; a call that is under way ends with a `ToolError`."""
        connections, self._connections = self._connections, []
        if connections and self._pid == os.getpid():  # those of a forked process are its parent's
            BACKGROUND.run(_close_all(connections))

    def __enter__(self) -> McpTools:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"McpTools({', '.join(one.server.name for one in self._connections)})"


async def _close_all(connections: list[Connection]) -> None:
    await asyncio.gather(*(one.close() for one in connections), return_exceptions=True)


def _tool(connection: Connection, told: mcp_types.Tool) -> Tool:
    from envweave.tools.mcp.answers import output_schema_of

    return Tool(
        name=identifier(connection.server.prefix + told.name),
        description=told.description or told.title or "",
        input_schema=told.input_schema,
        output_schema=output_schema_of(told),
        function=_function(connection, told),
    )


def _function(connection: Connection, told: mcp_types.Tool) -> Callable[..., Any]:
    from envweave.tools.mcp.answers import text_of, value_of

    def call(**arguments: Any) -> Any:
        result = BACKGROUND.run(connection.call(told.name, arguments))
        if result.is_error:
            text = connection.server.censored(text_of(result)) or "it failed, and does not say why"
            raise ToolError(f"{connection.server.name}.{told.name}: {text}")
        return value_of(result, told)

    return call


@atexit.register
def _close_the_rest() -> None:
    """What was forgotten, while the loop still runs."""
    for tools in list(_LIVING):
        with suppress(Exception):  # nobody is left to be told
            tools.close()

"""A connection to one MCP server that reconnects after a loss, and names each failure; its results as plain data."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import mcp_types
from mcp import MCPError
from mcp_types import INVALID_PARAMS, PARSE_ERROR, CallToolResult, TextContent

from envweave.core.loop import BACKGROUND
from envweave.core.schema import explain
from envweave.errors import ClosedError, UsageError, describe
from envweave.tools.error import Kind, ToolError
from envweave.tools.mcp.servers import McpServer
from envweave.tools.mcp.session import NO_REASON, McpSession
from envweave.tools.output import WRAPPED
from envweave.tools.schema_arguments import identifier
from envweave.tools.tool import Tool

_PROBE_TIMEOUT = 5.0
"""Seconds within which a server that did not answer a call must answer another request, or be given up."""
_LAST_ANSWER_TIMEOUT = 1.0
_ENDED = ("Connection closed", "Session terminated")
"""Messages of the `mcp` package for a broken pipe and for a restarted server. Servers use the code of the first one for
their own errors."""
_KINDS: dict[int, Kind] = {INVALID_PARAMS: "invalid_arguments", PARSE_ERROR: "bad_answer"}


class McpConnection:
    """For use on one event loop. Calls may overlap. A call is sent once and never repeated."""

    def __init__(self, server: McpServer, *, connect_timeout: float, call_timeout: float) -> None:
        self.server = server
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._session: McpSession | None = None
        self._mode = "auto"
        self._opening: asyncio.Task[McpSession] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._lost = False
        self._closed = False
        self._pid = os.getpid()

    async def tools(self) -> list[tuple[str, Tool]]:
        """Return the tools that the server listed when the session was opened, with its names. Raises `ToolError`."""
        return [(listed.name, self._tool(listed)) for listed in (await self._open()).tools]

    def _tool(self, listed: mcp_types.Tool) -> Tool:
        def call(**arguments: Any) -> Any:
            result = BACKGROUND.run(self.call(listed.name, arguments))
            if result.is_error:
                raise self._error(listed.name, "failed", _text(result) or "it failed without a message")
            return _value(result, listed)

        return Tool(
            name=identifier(self.server.prefix + listed.name),
            description=listed.description or listed.title or "",
            input_schema=listed.input_schema,
            output_schema=_output_schema(listed),
            function=call,
        )

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool. Raises `ToolError` if there is no result within `call_timeout`."""
        session = await self._open(tool)
        invalid = session.invalid_messages
        task = asyncio.ensure_future(session.call(tool, arguments))
        try:
            await asyncio.wait({task, session.ended}, timeout=self._call_timeout, return_when=asyncio.FIRST_COMPLETED)
            if session.ended.done() and not task.done():
                await asyncio.wait({task}, timeout=_LAST_ANSWER_TIMEOUT)  # it may have arrived just before the end
            if task.done() and not task.cancelled():
                return task.result()
            if session.ended.done() or task.done():
                raise self._lost_error(tool, session)
            if self._probing is None or self._probing.done():
                self._probing = asyncio.ensure_future(self._probe(session))
            if session.invalid_messages > invalid:
                raise self._error(tool, "bad_answer", "the server sent something that is not a message, and no answer")
            raise self._error(tool, "timeout", f"no answer within {self._call_timeout:g} s")
        except (ToolError, asyncio.CancelledError):
            raise
        except Exception as error:  # of the mcp package, or of what lies below it
            raise self._call_error(tool, session, error) from None
        finally:
            task.cancel()

    async def close(self) -> None:
        """Disconnect for good."""
        self._closed = True
        for task in (self._probing, self._opening):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _open(self, tool: str = "") -> McpSession:
        """Return the open session, or a new one if it was lost. Raises `ToolError`."""
        if self._pid != os.getpid():
            raise UsageError("MCP servers cannot be used in a forked process", "connect there")
        if self._probing is not None:
            await asyncio.wait({self._probing})
        if not self._closed:
            if self._session is not None and not self._session.ended.done():
                return self._session
            if self._opening is None or self._opening.done():  # concurrent calls share one attempt
                self._opening = asyncio.ensure_future(self._reopen())
            await asyncio.wait({self._opening})
        opening = self._opening
        if self._closed or opening is None or opening.cancelled():
            raise ClosedError(f"the MCP server {self.server.name!r} is disconnected")
        error = opening.exception()
        if error is not None:  # of the mcp package, of the system, of the server
            raise self._error(tool, "server_gone", *self._connect_failure(error))
        return opening.result()

    async def _reopen(self) -> McpSession:
        last, self._session = self._session, None
        if last is not None:
            self._lost = True
            await last.close()
        try:
            self._session = await McpSession.open(self.server, self._connect_timeout, self._mode)
        except (EOFError, MCPError):
            if not self.server.command or self._mode != "auto":
                raise
            self._session = await McpSession.open(self.server, self._connect_timeout, "legacy")
            self._mode = "legacy"  # some servers exit when the first request is unknown to them
        return self._session

    async def _probe(self, session: McpSession) -> None:
        """Close a session whose server answers nothing; one that is only slow stays."""
        try:
            await asyncio.wait_for(session.probe(), min(_PROBE_TIMEOUT, self._call_timeout))
        except Exception:  # of any kind: it is not an answer
            await session.close()

    def _connect_failure(self, error: BaseException) -> tuple[str, str]:
        """Return message and hint."""
        is_process = bool(self.server.command)
        head = "the server is gone, and cannot be" if self._lost else "the server cannot be"
        how = f"{head} {'started' if is_process else 'reached'}{' again' if self._lost else ''}"
        late = f"it did not answer within {self._connect_timeout:g} s"
        hint = ""
        if not is_process:
            hint = "is the URL right, and does the server run?"
        elif isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError):
            hint = "is the command installed and on PATH, and its `cwd` a folder?"
        elif str(error) in (*_ENDED, NO_REASON):
            hint = "run its command by hand to see its output"
        return f"{how}: {late if isinstance(error, TimeoutError) else _describe(error)}", hint

    def _lost_error(self, tool: str, session: McpSession) -> ToolError:
        line, failure = session.last_error_line(), session.failure
        why = f"; its last output: {line}" if line else f": {_describe(failure)}" if failure else ""
        return self._error(tool, "server_gone", f"the server is gone{why}")

    def _call_error(self, tool: str, session: McpSession, error: Exception) -> ToolError:
        if not isinstance(error, MCPError):
            return self._error(tool, "bad_answer", f"the answer is not valid: {_describe(error)}")
        if error.message in _ENDED:
            session.set_ended()
        if session.ended.done():
            return self._lost_error(tool, session)
        return self._error(tool, _KINDS.get(error.code, "failed"), _describe(error))

    def _error(self, tool: str, kind: Kind, what: str, hint: str = "") -> ToolError:
        name = f"{self.server.name}.{tool}" if tool else f"MCP server {self.server.name!r}"
        return ToolError(f"{name}: {self.server.redacted(what)}", hint, kind=kind)


def _describe(error: BaseException) -> str:
    if isinstance(error, MCPError | EOFError):
        text = str(error)
    else:
        text = explain(error) if isinstance(error, ValueError) else describe(error)
    return " ".join(text.split())[:500]


def _value(result: CallToolResult, tool: mcp_types.Tool) -> Any:
    """Return the structured content, else the text, else a list of texts and of other content as dicts."""
    content = result.structured_content
    if content is not None:
        own = (result.meta or {}).get("fastmcp")
        wrapped = _wraps(tool) or (isinstance(own, Mapping) and own.get("wrap_result") is True)
        return content["result"] if wrapped and set(content) == {"result"} else content
    if all(isinstance(part, TextContent) for part in result.content):
        return _text(result) if result.content else None
    return [
        part.text if isinstance(part, TextContent) else part.model_dump(mode="json", by_alias=True, exclude_none=True)
        for part in result.content
    ]


def _text(result: CallToolResult) -> str:
    """Return the text of a result, a line for each part."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


def _output_schema(tool: mcp_types.Tool) -> dict[str, Any] | None:
    """Return the schema of what `_value` returns, if it is known."""
    schema: dict[str, Any] | None = tool.output_schema
    if schema is None or not _wraps(tool):
        return schema
    found: dict[str, Any] = schema["properties"]["result"]
    return {**found, "$defs": schema["$defs"]} if "$defs" in schema and isinstance(found, dict) else found


def _wraps(tool: mcp_types.Tool) -> bool:
    """Whether the output schema only wraps a value: FastMCP has a keyword for it, the official server a title."""
    schema = tool.output_schema or {}
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or set(properties) != {"result"}:
        return False
    return schema.get(WRAPPED) is True or schema.get("title") == f"{tool.name}Output"

"""One MCP server for as long as it is needed: connected, lost, connected again; and what each failure is called."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from mcp import MCPError
from mcp_types import INVALID_PARAMS, PARSE_ERROR, CallToolResult, Tool

from envweave.core.schema import explain
from envweave.errors import ClosedError, UsageError, describe
from envweave.tools.error import Kind, ToolError
from envweave.tools.mcp.link import NO_WORDS, Link
from envweave.tools.mcp.servers import Server

_PROBE = 5.0
"""Seconds within which a server that did not answer a call must answer something else, or be given up."""

_ENDED = ("Connection closed", "Session terminated")
"""What the package says when a pipe has broken, or when a server that was started anew does not know us. The code of
the first is also used by servers for errors of their own."""
_KINDS: dict[int, Kind] = {INVALID_PARAMS: "invalid_arguments", PARSE_ERROR: "bad_answer"}


class Connection:
    """All methods are for one event loop. Calls may overlap. A call is sent once and never again."""

    def __init__(self, server: Server, *, connect_timeout: float, call_timeout: float) -> None:
        self.server = server
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._link: Link | None = None
        self._mode = "auto"
        self._opening: asyncio.Task[Link] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._lost = False
        self._closed = False
        self._pid = os.getpid()

    async def tools(self) -> list[Tool]:
        """What the server offers, as of when it was connected to. Raises `ToolError`."""
        return (await self._open()).tools

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool. Raises `ToolError` if there is no result within `call_timeout`, for whatever reason."""
        link = await self._open(tool)
        garbage = link.garbage
        task = asyncio.ensure_future(link.call(tool, arguments))
        try:
            await asyncio.wait({task, link.gone}, timeout=self._call_timeout, return_when=asyncio.FIRST_COMPLETED)
            if link.gone.done() and not task.done():
                await asyncio.wait({task}, timeout=1.0)  # the answer may have come just before the end
            if task.done() and not task.cancelled():
                return task.result()
            if link.gone.done() or task.done():
                raise self._gone(tool, link)
            self._doubt(link)
            if link.garbage > garbage:
                raise self._error(tool, "bad_answer", "the server sent what is no message, and no answer")
            raise self._error(tool, "timeout", f"no answer within {self._call_timeout:g} s")
        except (ToolError, asyncio.CancelledError):
            raise
        except Exception as error:  # of the mcp package, or of what lies below it
            raise self._failed(tool, link, error) from None
        finally:
            task.cancel()

    async def close(self) -> None:
        """Disconnect for good."""
        self._closed = True
        for task in (self._probing, self._opening):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})
        link, self._link = self._link, None
        if link is not None:
            await link.leave()

    async def _open(self, tool: str = "") -> Link:
        """The open link, or a new one where the last was lost. Raises `ToolError`."""
        if self._pid != os.getpid():
            raise UsageError("MCP servers cannot be used in a forked process", "connect there")
        if self._probing is not None:
            await asyncio.wait({self._probing})
        if self._closed:
            raise ClosedError(f"the MCP server {self.server.name!r} is disconnected")
        if self._link is not None and not self._link.gone.done():
            return self._link
        if self._opening is None or self._opening.done():  # all who wait share one attempt, and what comes of it
            self._opening = asyncio.ensure_future(self._reopen())
        opening = self._opening
        await asyncio.wait({opening})
        if opening.cancelled():
            raise ClosedError(f"the MCP server {self.server.name!r} is disconnected")
        error = opening.exception()
        if error is not None:  # of the mcp package, of the system, of the server
            raise self._error(tool, "server_gone", self._unreached(error), self._advice(error))
        return opening.result()

    async def _reopen(self) -> Link:
        last, self._link = self._link, None
        if last is not None:
            self._lost = True
            await last.leave()
        try:
            self._link = await Link.open(self.server, self._connect_timeout, self._mode)
        except (EOFError, MCPError):
            if not self.server.command or self._mode != "auto":
                raise
            self._link = await Link.open(self.server, self._connect_timeout, "legacy")
            self._mode = "legacy"  # some leave when the first question is one that they do not know
        return self._link

    def _unreached(self, error: BaseException) -> str:
        is_process = bool(self.server.command)
        head = "the server is gone, and cannot be" if self._lost else "the server cannot be"
        how = f"{head} {'started' if is_process else 'reached'}{' again' if self._lost else ''}"
        late = f"it did not answer within {self._connect_timeout:g} s"
        return f"{how}: {late if isinstance(error, TimeoutError) else _told(error)}"

    def _advice(self, error: BaseException) -> str:
        """What to do where the error itself does not say it."""
        if not self.server.command:
            return "is the URL right, and does the server run?"
        if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError):
            return "is the command installed and on PATH, and its `cwd` a folder?"
        silent = str(error) in (*_ENDED, NO_WORDS)
        return "run its command by hand to see what it says" if silent else ""

    def _doubt(self, link: Link) -> None:
        """A server that is merely slow goes on; one that answers nothing at all is given up, before the next call."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.ensure_future(self._probe(link))

    async def _probe(self, link: Link) -> None:
        try:
            await asyncio.wait_for(link.probe(), min(_PROBE, self._call_timeout))
        except Exception:  # whatever it is, it is no answer
            await link.leave()

    # What went wrong.

    def _gone(self, tool: str, link: Link) -> ToolError:
        words, failure = link.last_words(), link.failure
        why = f", it last said: {words}" if words else f": {_told(failure)}" if failure else ""
        return self._error(tool, "server_gone", f"the server is gone{why}")

    def _failed(self, tool: str, link: Link, error: Exception) -> ToolError:
        if not isinstance(error, MCPError):
            return self._error(tool, "bad_answer", f"the answer has no meaning: {_told(error)}")
        if error.message in _ENDED:
            link.set_gone()
        if link.gone.done():
            return self._gone(tool, link)
        return self._error(tool, _KINDS.get(error.code, "failed"), _told(error))

    def _error(self, tool: str, kind: Kind, what: str, hint: str = "") -> ToolError:
        name = f"{self.server.name}.{tool}" if tool else f"MCP server {self.server.name!r}"
        return ToolError(f"{name}: {self.server.censored(what)}", hint, kind=kind)


def _told(error: BaseException) -> str:
    if isinstance(error, MCPError | EOFError):
        text = str(error)
    else:
        text = explain(error) if isinstance(error, ValueError) else describe(error)
    return " ".join(text.split())[:500]

"""MCP itself, spoken by the official package: when it is asked for, and for as long as the server runs.

`/mcp` has two kinds of client. One that speaks MCP says so in every request: it takes `text/event-stream`, as the
protocol wants of it, or names an `MCP-Protocol-Version`. OpenEnv's tool clients do neither.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastapi import Request

from envweave.server.sessions import Sessions
from envweave.tools.mcp.needed import need_mcp

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def speaks_mcp(request: Request) -> bool:
    return "mcp-protocol-version" in request.headers or "text/event-stream" in request.headers.get("accept", "")


class Streamable:
    """Streamable HTTP, stateless. Contexts are entered and left by one task, which begins with the first request."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Any]

    def app(self) -> ASGIApp:
        """What answers a request. Raises `UnavailableError` without the `mcp` package."""
        need_mcp()
        return self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = self._sessions.loop
        if self._owner is None or self._owner.done() or self._owner.get_loop() is not loop:
            self._ready = loop.create_future()
            self._owner = loop.create_task(self._own(self._ready))
        manager = await asyncio.shield(self._ready)
        await manager.handle_request(scope, receive, send)

    async def _own(self, ready: asyncio.Future[Any]) -> None:
        try:
            from envweave.server.official import manager_for  # the mcp package, which takes half a second

            manager = manager_for(self._sessions)
            async with manager.run():
                ready.set_result(manager)
                await asyncio.Event().wait()
        except Exception as error:  # whatever it is, it is for those who wait
            if ready.done():
                raise
            ready.set_exception(error)

    async def stop(self) -> None:
        """Let go of all who still wait for an answer."""
        if self._owner is not None:
            self._owner.cancel()
            with suppress(asyncio.CancelledError):
                await self._owner
            self._owner = None

"""MCP itself, spoken by the official package: when it is asked for, and for as long as the server runs.

`/mcp` has two kinds of client. One that speaks MCP says so in every request: it takes `text/event-stream`, as the
protocol wants of it, or names an `MCP-Protocol-Version`. OpenEnv's tool clients do neither.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request

from envweave.errors import ClosedError
from envweave.server.sessions import Sessions
from envweave.tools.mcp.requirement import require_mcp

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import ASGIApp


def speaks_mcp(request: Request) -> bool:
    return "mcp-protocol-version" in request.headers or "text/event-stream" in request.headers.get("accept", "")


class Streamable:
    """Streamable HTTP, stateless. Contexts are entered and left by one task, which begins with the first request."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[StreamableHTTPSessionManager]

    async def app(self) -> ASGIApp:
        """What answers a request. Raises `UnavailableError` without the `mcp` package, `ClosedError` at the end."""
        loop, owner = self._sessions.loop, self._owner
        if owner is None or owner.done() or owner.get_loop() is not loop:
            require_mcp()
            self._ready = loop.create_future()
            self._owner = owner = loop.create_task(self._own(self._ready))
        ready = self._ready
        await asyncio.wait({ready, owner}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            if owner.cancelled():
                raise ClosedError("the server is stopping")
            owner.result()  # raises what was in the way
        answer: ASGIApp = ready.result().handle_request
        return answer

    async def _own(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        manager = await asyncio.to_thread(_new_manager, self._sessions)
        async with manager.run():
            ready.set_result(manager)
            await asyncio.Event().wait()

    async def stop(self) -> None:
        """Let go of all who still wait for an answer."""
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.wait({self._owner})
            self._owner = None


def _new_manager(sessions: Sessions) -> StreamableHTTPSessionManager:
    from envweave.server.official import manager_for  # the mcp package, which takes half a second

    return manager_for(sessions)

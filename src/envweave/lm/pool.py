"""What the calls of one model share: connections, turns, and a list of who is under way."""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from envweave.core.lookup import load
from envweave.core.loop import LoopThread
from envweave.errors import ClosedError

if TYPE_CHECKING:
    from envweave.lm.endpoint import Endpoint
    from envweave.lm.secret import Secret

EXIT_TIMEOUT = 1.0
"""Seconds that connections have to end at exit."""

_LOOPS = [LoopThread()]
_OPEN: weakref.WeakSet[Pool] = weakref.WeakSet()
_INHERITED: list[Pool] = []
"""What a forked child has of its parent is kept and left alone: to end it here could end it there."""


def loop() -> LoopThread:
    """Where all models of a process do their work, so that a call may come from any thread and any other loop."""
    return _LOOPS[-1]


class Pool:
    """Made and used on `loop()` only, and only in the process that made it."""

    def __init__(self, base_url: str, secret: Secret, at_once: int) -> None:
        self.endpoint: Endpoint = endpoint_class()(base_url, secret)
        self.closed = False
        self._home, self._process = asyncio.get_running_loop(), os.getpid()
        self._turns = asyncio.Semaphore(at_once)
        self._calls: set[asyncio.Task[Any]] = set()
        _OPEN.add(self)

    @property
    def is_ours(self) -> bool:
        """False in a child that was forked after it was made."""
        return self._process == os.getpid()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn and hold it. Raises `ClosedError` when the pool is closed meanwhile."""
        call = asyncio.current_task()
        assert call is not None
        self._calls.add(call)
        try:
            async with self._turns:
                yield
        except asyncio.CancelledError:
            if not self.closed:
                raise
        finally:
            self._calls.discard(call)
        if self.closed:
            raise ClosedError("the language model was closed during a call")

    async def close(self) -> None:
        """End the calls under way, and the connections."""
        self.closed = True
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self.endpoint.aclose()

    def drop(self) -> Future[None] | None:
        """Do without it, from any thread: it is closed soon, or left to the process that it belongs to."""
        if not self.is_ours:
            _INHERITED.append(self)
            return None
        return asyncio.run_coroutine_threadsafe(self.close(), self._home)


def endpoint_class() -> type[Endpoint]:
    """Raises `UnavailableError` with the install command where httpx is missing."""
    found: type[Endpoint] = load("envweave.lm.endpoint:Endpoint", extra="client")
    return found


@atexit.register
def _close_all() -> None:
    """Nothing is said at exit about a model that nobody closed."""
    closing = [pool.drop() for pool in list(_OPEN) if not pool.closed]
    wait([one for one in closing if one is not None], timeout=EXIT_TIMEOUT)


# The lock of the loop before may be held by a thread that the child does not have.
os.register_at_fork(after_in_child=lambda: _LOOPS.append(LoopThread()))

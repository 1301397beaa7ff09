"""The calls of one model in this process: their connections, their limits, and how they end."""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from envweave.core.lookup import load
from envweave.core.loop import LoopThread
from envweave.errors import ClosedError, UnavailableError
from envweave.lm.limits import RateLimit, Share

if TYPE_CHECKING:
    from envweave.lm.client import ModelClient

EXIT_TIMEOUT = 1.0
"""Seconds that connections have to end at exit."""

_LOOPS = [LoopThread()]
_OPEN: weakref.WeakSet[Calls] = weakref.WeakSet()
_INHERITED: list[Calls] = []
"""What a forked child has of its parent is kept and left alone: to end it here could end it there."""


def loop() -> LoopThread:
    """Where all models of a process do their work, so that a call may come from any thread and any other loop."""
    return _LOOPS[-1]


class Calls:
    """Made and used on `loop()` only, and only in the process that made it."""

    def __init__(self, client: ModelClient, max_concurrency: int, requests: int | None, tokens: int | None) -> None:
        self.client = client
        self.closed = False
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        self._turns = asyncio.Semaphore(max_concurrency)
        self._requests, self._tokens = RateLimit(requests), RateLimit(tokens)
        self._tasks: set[asyncio.Task[Any]] = set()
        _OPEN.add(self)

    @property
    def is_ours(self) -> bool:
        """False in a child that was forked after it was made."""
        return self._process == os.getpid()

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[Share]:
        """Wait until the limits allow a call, and hold its place. Yields the tokens that were reserved.

        Raises `ClosedError` when the model is closed meanwhile.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._turns:
                await self._requests.take(1)
                yield await self._tokens.take(tokens)
        except asyncio.CancelledError:
            if not self.closed:
                raise
        finally:
            self._tasks.discard(task)
        if self.closed:
            raise ClosedError("the language model was closed during a call")

    async def close(self) -> None:
        """End the calls under way, and the connections."""
        self.closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.client.aclose()

    def drop(self) -> Future[None] | None:
        """Do without it, from any thread: it is closed soon, or left to the process that it belongs to."""
        if not self.is_ours:
            _INHERITED.append(self)
            return None
        return asyncio.run_coroutine_threadsafe(self.close(), self._loop)


def check_installed() -> None:
    """Raise `UnavailableError` with the install command if openai is missing, without importing it."""
    if find_spec("openai") is None:
        raise UnavailableError("'openai' is not installed", "pip install 'envweave[lm]'")


def client_class() -> type[ModelClient]:
    """The class that sends requests. The first call takes the time to import openai."""
    found: type[ModelClient] = load("envweave.lm.client:ModelClient", extra="lm")
    return found


@atexit.register
def _close_all() -> None:
    """No warning at exit about a model that was not closed."""
    closing = [calls.drop() for calls in list(_OPEN) if not calls.closed]
    wait([one for one in closing if one is not None], timeout=EXIT_TIMEOUT)


# The lock of the loop before may be held by a thread that the child does not have.
os.register_at_fork(after_in_child=lambda: _LOOPS.append(LoopThread()))

"""One event loop in a background thread, for callers that have none."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from envweave.errors import UsageError

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for sync code. The thread is a daemon and starts with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():  # a forked child has the loop but not its thread
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="envweave-loop", daemon=True).start()
            return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return run_on(self.loop, work)


def run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Wait here for a coroutine on a loop that runs in another thread. On Ctrl-C the coroutine is cancelled."""
    try:
        refuse_blocking(loop)
    except UsageError:
        work.close()
        raise
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def refuse_blocking(loop: asyncio.AbstractEventLoop | None) -> None:
    """Raise `UsageError` on the thread of `loop`, which must not wait for work of its own."""
    if loop is not None and running_loop() is loop:
        raise UsageError("a sync call from inside the environment's own event loop", "use `await env.aio.…` here")


async def await_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine on a loop that may be another one."""
    if running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


BACKGROUND = LoopThread()

"""A reply that comes in pieces."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from envweave.core.loop import await_on
from envweave.errors import UsageError
from envweave.lm.calls import loop
from envweave.lm.chunks import OnDelta, ReplyDelta
from envweave.lm.reply import Reply

Pull = Callable[[OnDelta], Coroutine[Any, Any, Reply]]
"""Makes a call, gives its pieces to the function, and returns the whole."""


class _Stream:
    """A call that runs on `loop()` from the first `next` on, whether anybody waits for its pieces or not."""

    def __init__(self, pull: Pull) -> None:
        self._pull = pull
        self._task: asyncio.Task[Reply] | None = None
        self._deltas: asyncio.Queue[ReplyDelta | None] = asyncio.Queue()
        self._closed = False

    @property
    def reply(self) -> Reply:
        """The whole reply, after the last piece. Raises what the call raised; `UsageError` before its end."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise UsageError("the stream has not been read to its end", "iterate over all of it first")
        return self._task.result()

    @property
    def _is_ours(self) -> bool:
        """False in a child that was forked after the call began."""
        return self._task is None or self._task.get_loop() is asyncio.get_running_loop()

    async def _next(self) -> ReplyDelta | None:
        if self._closed:
            raise UsageError("the stream was closed")
        if not self._is_ours:
            raise UsageError("the stream was begun in another process", "a forked child begins its own")
        if self._task is None:
            put = self._deltas.put_nowait
            self._task = asyncio.create_task(self._pull(put))
            self._task.add_done_callback(lambda _: put(None))
            weakref.finalize(self, _cancel, self._task, os.getpid()).atexit = False
        delta = await self._deltas.get()
        if delta is None:
            self._deltas.put_nowait(None)  # for those who ask again
            self._task.result()
        return delta

    async def _end(self) -> None:
        self._closed = True
        if self._task is not None and self._is_ours:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # no warning that nobody has looked at it


def _cancel(task: asyncio.Task[Reply], process: int) -> None:
    if process == os.getpid():
        task.get_loop().call_soon_threadsafe(task.cancel)


class ReplyStream(_Stream):
    """Iterate over the pieces, then read `reply`. Use `with`, so that leaving early ends the connection."""

    def __iter__(self) -> ReplyStream:
        return self

    def __next__(self) -> ReplyDelta:
        delta = loop().run(self._next())
        if delta is None:
            raise StopIteration
        return delta

    def close(self) -> None:
        """End the call, if it has not ended."""
        loop().run(self._end())

    def __enter__(self) -> ReplyStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncReplyStream(_Stream):
    """A `ReplyStream` for `async for` and `async with`."""

    def __aiter__(self) -> AsyncReplyStream:
        return self

    async def __anext__(self) -> ReplyDelta:
        delta = await await_on(loop().loop, self._next())
        if delta is None:
            raise StopAsyncIteration
        return delta

    async def aclose(self) -> None:
        """End the call, if it has not ended."""
        await await_on(loop().loop, self._end())

    async def __aenter__(self) -> AsyncReplyStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

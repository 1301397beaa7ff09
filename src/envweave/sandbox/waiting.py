"""Waiting for descriptors, in two ways: here and now, or on an event loop.

The conversation with a sandbox is written once, as coroutines that take a `Wait`. Given `BLOCKING`, such a coroutine
never suspends, so that `drive` runs it like a plain function, in the caller's thread: a change of threads would cost
as much as a run.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Wait(Protocol):
    """How to wait."""

    async def readable(self, descriptors: Sequence[int], timeout: float | None) -> Collection[int]:
        """Those that can be read or have ended; none after the timeout."""

    async def writable(self, descriptor: int, timeout: float | None) -> bool: ...

    async def sleep(self, seconds: float) -> None: ...


_LONGEST = 3600.0
"""Seconds; poll takes no more than some weeks. Whoever waits looks again."""


def _milliseconds(timeout: float | None) -> float | None:
    return None if timeout is None else min(max(0.0, timeout), _LONGEST) * 1000


class _Blocking:
    async def readable(self, descriptors: Sequence[int], timeout: float | None) -> Collection[int]:
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in poll.poll(_milliseconds(timeout))]

    async def writable(self, descriptor: int, timeout: float | None) -> bool:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        return bool(poll.poll(_milliseconds(timeout)))

    async def sleep(self, seconds: float) -> None:
        select.select([], [], [], seconds)


class _Looping:
    async def readable(self, descriptors: Sequence[int], timeout: float | None) -> Collection[int]:
        loop = asyncio.get_running_loop()
        found: set[int] = set()
        woken = loop.create_future()

        def ready(descriptor: int) -> None:
            found.add(descriptor)
            if not woken.done():
                woken.set_result(None)

        for descriptor in descriptors:
            loop.add_reader(descriptor, ready, descriptor)
        try:
            await asyncio.wait((woken,), timeout=timeout)
        finally:
            for descriptor in descriptors:
                loop.remove_reader(descriptor)
        return found

    async def writable(self, descriptor: int, timeout: float | None) -> bool:
        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def ready() -> None:
            if not woken.done():
                woken.set_result(None)

        loop.add_writer(descriptor, ready)
        try:
            await asyncio.wait((woken,), timeout=timeout)
        finally:
            loop.remove_writer(descriptor)
        return woken.done()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


BLOCKING: Wait = _Blocking()
LOOPING: Wait = _Looping()


async def whole(
    wait: Wait, work: Coroutine[Any, Any, T], undo: Callable[[T], Coroutine[Any, Any, Any]] | None = None
) -> T:
    """Run to its end what must not be torn. On a loop, a cancellation is heard afterwards, and the result undone."""
    if wait is not LOOPING:
        return await work
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _outlast(task)
        if undo is not None and not task.cancelled() and task.exception() is None:
            await _outlast(asyncio.ensure_future(undo(task.result())))
        raise


async def _outlast(task: asyncio.Task[Any]) -> None:
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # it is nobody's any more


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits with `BLOCKING` to its end."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("a blocking conversation has been suspended")

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

from envweave.sandbox.ctrl_c import CTRL_C

T = TypeVar("T")


class Wait(Protocol):
    """How to wait."""

    async def readable(self, descriptors: Sequence[int], timeout: float | None) -> Collection[int]:
        """Those that can be read or have ended; none after the timeout."""

    async def writable(self, descriptor: int, timeout: float | None) -> bool: ...

    async def sleep(self, seconds: float) -> None: ...


_LONGEST = 3600.0
"""Seconds; poll takes no more than some weeks. Whoever waits looks again."""


def _polled(poll: select.poll, timeout: float | None) -> list[tuple[int, int]]:
    milliseconds = None if timeout is None else min(max(0.0, timeout), _LONGEST) * 1000
    if not CTRL_C.here():
        return poll.poll(milliseconds)
    with CTRL_C:
        return poll.poll(milliseconds)


class _Blocking:
    async def readable(self, descriptors: Sequence[int], timeout: float | None) -> Collection[int]:
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in _polled(poll, timeout)]

    async def writable(self, descriptor: int, timeout: float | None) -> bool:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        return bool(_polled(poll, timeout))

    async def sleep(self, seconds: float) -> None:
        _polled(select.poll(), seconds)


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
    """Run to its end what must not be torn. A cancellation, or Ctrl-C, is heard afterwards.

    On a loop the result is then undone, for nobody has it.
    """
    if wait is not LOOPING:
        if not CTRL_C.here():
            return await work
        with CTRL_C.unheard():
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
    ours = CTRL_C.install()
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        if ours:
            CTRL_C.remove()
    work.close()
    raise RuntimeError("a blocking conversation has been suspended")

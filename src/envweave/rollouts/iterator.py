"""`Rollout` and `AsyncRollout`: iterators over the groups of a rollout."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self

from envweave.core.loop import LoopThread, refuse_blocking
from envweave.rollouts.groups import Group
from envweave.rollouts.progress import Progress
from envweave.rollouts.scheduler import Scheduler
from envweave.rollouts.summary import Summary


class AsyncRollout:
    """An async iterator over groups, each when it is complete. Iterate it once; `aclose` ends it early."""

    def __init__(self, make_scheduler: Callable[[], Scheduler], *, progress: bool | None = None) -> None:
        self._make = make_scheduler
        self._progress = Progress(progress)
        self._scheduler: Scheduler | None = None
        self._groups: AsyncIterator[Group] | None = None

    @property
    def summary(self) -> Summary:
        """What was done so far."""
        return Summary() if self._scheduler is None else self._scheduler.summary

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Group:
        if self._groups is None:
            self._scheduler = self._make()
            self._groups = self._shown(self._scheduler)
        return await anext(self._groups)

    async def _shown(self, scheduler: Scheduler) -> AsyncIterator[Group]:
        with self._progress.showing(scheduler.summary):
            async for group in scheduler.groups():
                yield group

    async def aclose(self) -> None:
        """Cancel what runs and close all environments."""
        if self._scheduler is not None:
            await self._scheduler.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()


class Rollout:
    """An iterator over groups, each when it is complete. Iterate it once; `close` ends it early.

    Episodes run on a thread of their own, also while the caller uses a group. After Ctrl-C nothing runs any more, and
    iterating again gives the groups that were complete by then.
    """

    def __init__(self, make_scheduler: Callable[[], Scheduler], *, progress: bool | None = None) -> None:
        self._runner = _Runner(make_scheduler, Progress(progress))
        self._finalizer = weakref.finalize(self, self._runner.cancel)

    @property
    def summary(self) -> Summary:
        """What was done so far."""
        return self._runner.summary

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Group:
        item: Group | BaseException | None = None
        try:
            item = self._runner.wait()
            self._runner.take()
        except KeyboardInterrupt:
            if item is not None and not self._runner.has(item):
                self._runner.put_back(item)
            self.close()
            raise
        if item is None:
            raise StopIteration
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        """Cancel what runs and close all environments. Complete groups can still be iterated."""
        self._runner.cancel()
        self._runner.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


LOOP = LoopThread()
"""Runs all rollouts of callers without a loop. It stays, as the states that a rollout kept may need it."""


class _Runner:
    """A scheduler on the loop of another thread. It does not refer to its `Rollout`, which may be dropped."""

    def __init__(self, make_scheduler: Callable[[], Scheduler], progress: Progress) -> None:
        self.summary = Summary()
        self._make = make_scheduler
        self._progress = progress
        self._items: deque[Group | BaseException | None] = deque()
        self._added = threading.Event()
        self._wanted = asyncio.Semaphore(0)
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._begun = False
        self._ended = threading.Event()
        self._is_over = False

    def wait(self) -> Group | BaseException | None:
        """Wait for the next group, an exception, or None at the end. It stays there until it is taken."""
        if self._is_over and not self._items:
            return None
        refuse_blocking(LOOP.loop)
        if not self._begun:
            self._begun = True
            asyncio.run_coroutine_threadsafe(self._main(), LOOP.loop)
        LOOP.loop.call_soon_threadsafe(self._wanted.release)
        while not self._items:
            self._added.wait()
            self._added.clear()
        return self._items[0]

    def take(self) -> None:
        """Remove what `wait` returned."""
        if self._items:
            self._is_over = not isinstance(self._items.popleft(), Group)

    def has(self, item: Any) -> bool:
        return bool(self._items) and self._items[0] is item

    def put_back(self, item: Any) -> None:
        """Undo `take`, whose caller was interrupted."""
        self._items.appendleft(item)

    def _put(self, item: Group | BaseException | None) -> None:
        self._items.append(item)
        self._added.set()

    async def _main(self) -> None:
        scheduler: Scheduler | None = None
        self._task = asyncio.current_task()
        try:
            if self._is_cancelled:
                return
            scheduler = self._make()
            self.summary = scheduler.summary
            with self._progress.showing(scheduler.summary):
                await self._give(scheduler)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._put(error)
        finally:
            if scheduler is not None:
                for group in scheduler.take_ready():
                    self._put(group)
                await scheduler.close()
            self._put(None)
            self._ended.set()

    async def _give(self, scheduler: Scheduler) -> None:
        """Pass a group on whenever the caller asks for one."""
        await self._wanted.acquire()
        async for group in scheduler.groups():
            self._put(group)
            await self._wanted.acquire()

    def cancel(self) -> None:
        """End everything; does not wait."""
        if self._begun:
            LOOP.loop.call_soon_threadsafe(self._cancel)
        else:
            self._is_over = True

    def _cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def join(self) -> None:
        """Wait until everything has ended."""
        if self._begun:
            self._ended.wait()

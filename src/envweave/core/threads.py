"""Daemon threads for blocking calls: as many as there are calls, reused, and never waited for at exit."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

Work: TypeAlias = Callable[[], Any]
Done: TypeAlias = Callable[[Any, BaseException | None], None]
"""Receives the value, or None and the exception. Called on the worker's thread; must not raise."""

Job: TypeAlias = tuple[Work, Done]


class DaemonThreads:
    """Runs each call on an idle thread, or on a new one if there is none: no call waits for another."""

    def __init__(self, name: str, *, idle_timeout: float = 10.0) -> None:
        self._name = name
        self._idle_timeout = idle_timeout
        self._idle: list[SimpleQueue[Job | None]] = []
        self._threads: set[threading.Thread] = set()
        self._pid = os.getpid()

    def submit(self, work: Work, done: Done) -> None:
        """Run `work` on another thread and pass what it returns or raises to `done`."""
        if self._pid != os.getpid():  # a forked child has none of the threads
            self._idle, self._threads, self._pid = [], set(), os.getpid()
        try:
            jobs = self._idle.pop()  # the thread that was used last; one operation, so no lock
        except IndexError:
            jobs = SimpleQueue()
            thread = threading.Thread(target=self._run, args=(jobs, self._idle), name=self._name, daemon=True)
            thread.start()
            self._threads.add(thread)
        jobs.put((work, done))

    def end(self, timeout: float) -> None:
        """End the idle threads and wait for them; one that runs a call ends when it returns."""
        self._idle_timeout = 0.0
        idle = list(self._threads)
        while self._idle:
            self._idle.pop().put(None)
        for thread in idle if self._pid == os.getpid() else ():
            if thread is not threading.current_thread():
                thread.join(timeout / len(idle))

    @property
    def count(self) -> int:
        """The number of threads."""
        return len(self._threads)

    def _run(self, jobs: SimpleQueue[Job | None], idle: list[SimpleQueue[Job | None]]) -> None:
        while (job := self._next(jobs, idle)) is not None:
            _run_job(*job)
            del job  # the thread keeps nothing alive while it is idle
            idle.append(jobs)
        self._threads.discard(threading.current_thread())

    def _next(self, jobs: SimpleQueue[Job | None], idle: list[SimpleQueue[Job | None]]) -> Job | None:
        while True:
            try:
                return jobs.get(timeout=self._idle_timeout or 0.001)
            except Empty:
                try:
                    idle.remove(jobs)
                except ValueError:  # `submit` has just taken it: a job is on its way
                    continue
                return None


def _run_job(work: Work, done: Done) -> None:
    value, error = None, None
    try:
        value = work()
    except BaseException as raised:  # including SystemExit: the caller waits for an answer
        error = raised
    done(value, error)


THREADS = DaemonThreads("envweave-call")
"""For the awaited form of sync environments, and for blocking calls of the client."""


def start(work: Work) -> None:
    """Run a blocking call on a thread and ignore what comes of it."""
    THREADS.submit(work, lambda _value, _error: None)


async def run_in_thread(work: Work, drop: Callable[[Any], None] | None = None) -> Any:
    """Await a blocking call. If the caller is cancelled, the call goes on; `drop` receives its result or exception."""
    from asyncio import CancelledError  # loaded only for callers that await

    delivery = Delivery(drop)
    try:
        return await thread_future(partial(delivery.run, work))
    except (CancelledError, GeneratorExit):
        delivery.abandon()
        raise


class Delivery:
    """Passes a result to a caller that waits elsewhere, or to `drop` if the caller was cancelled."""

    def __init__(self, drop: Callable[[Any], None] | None) -> None:
        self._drop = drop
        self._result: Any = None
        self._first = [True]
        """Removed by the side that finishes first, the call or a cancelled caller; `pop` is atomic."""

    def run(self, work: Work) -> Any:
        try:
            self._result = work()
        except BaseException as error:
            self._result = error
            raise
        finally:
            self._finish()
        return self._result

    async def run_async(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            self._result = await work
        except BaseException as error:
            self._result = error
            raise
        finally:
            self._finish()
        return self._result

    def abandon(self) -> None:
        """The caller was cancelled and does not receive the result."""
        self._finish()

    def _finish(self) -> None:
        try:
            self._first.pop()
        except IndexError:
            if self._drop is not None:
                self._drop(self._result)


def thread_future(work: Work) -> Any:
    """Start a blocking call on a thread and return an `asyncio.Future` of the running loop."""
    import asyncio  # loaded only for callers that await

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(_raisable(error))

    def done(value: Any, error: BaseException | None) -> None:
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop has ended, and its tasks with it
            pass

    try:
        THREADS.submit(work, done)
    except RuntimeError:  # the interpreter is shutting down and starts no threads
        _run_job(work, settle)
    return future


def _raisable(error: BaseException) -> BaseException:
    """A future refuses `StopIteration`, which would end the coroutine that awaits it."""
    if not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError("the call raised StopIteration")
    wrapped.__cause__ = error
    return wrapped

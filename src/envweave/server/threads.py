"""A bounded pool of threads for code that may block, made for many short calls.

`concurrent.futures` wakes a thread for each call and the loop for each answer; for steps of microseconds that is most
of their cost. Here a thread that is awake takes call after call, and the loop is woken once for all answers there are.

A call that was quick the last time may queue behind a thread that is awake; the others always get a thread of their
own, as long as there is one. If a thread is held up after all, whoever queues behind it is taken over within
milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

RESCUE_AFTER = 0.002
"""Seconds after which a call that still queues gets another thread."""
TELL_AFTER = 0.002
"""Seconds for which a thread that has more quick calls to do may keep answers to itself."""
RETIRE_AFTER = 10.0
"""Seconds after which a thread with nothing to do ends."""


class Job(NamedTuple):
    """A call for a thread, and who is told on the loop what it returned or raised."""

    call: Callable[[], Any]
    done: Callable[[Any], None]
    quick: bool


class Threads:
    """Threads for one event loop. All methods are for the loop's own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int, *, retire_after: float = RETIRE_AFTER) -> None:
        self.loop = loop
        self._most = most
        self._retire_after = retire_after
        # Single operations on deques, sets and dicts are atomic: the threads need no lock among each other.
        self._jobs: deque[Job] = deque()
        self._answers: deque[tuple[Job, Any]] = deque()
        self._asleep: deque[threading.Lock] = deque()
        self._alive: set[threading.Thread] = set()
        self._awake: dict[int, bool] = {}
        """Threads that take call after call at the moment."""
        self._told = False
        self._kicking = False
        self._rescue: asyncio.TimerHandle | None = None
        self._ending = False

    @property
    def count(self) -> int:
        return len(self._alive)

    def submit(self, call: Callable[[], Any], done: Callable[[Any], None], *, quick: bool = False) -> None:
        """Have the call run; `done` gets what it returned, or the exception it raised."""
        self._jobs.append(Job(call, done, quick))
        if not quick:
            self._wake()
        elif not self._kicking:
            self._kicking = True
            self.loop.call_soon(self._kick)

    def _kick(self) -> None:
        """One thread for all quick calls of this turn of the loop, woken when the loop is about to wait itself."""
        self._kicking = False
        if not self._awake:
            self._wake()
        self._watch()

    async def run(self, call: Callable[[], Any], *, late: Callable[[Any], None] | None = None) -> Any:
        """Await the call. If the waiting is cancelled, the call goes on, and `late` gets what it returns."""
        future = self.loop.create_future()

        def done(answer: Any) -> None:
            if future.done():
                if late is not None and not isinstance(answer, BaseException):
                    late(answer)
            elif isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.submit(call, done)
        return await future

    def end(self) -> None:
        """Let the threads end as soon as they have nothing to do; those that hang are daemons."""
        self._ending = True
        if self._rescue is not None:
            self._rescue.cancel()
        while self._asleep:
            self._asleep.pop().release()

    def _wake(self) -> None:
        try:
            self._asleep.pop().release()
        except IndexError:
            if len(self._alive) < self._most:
                thread = threading.Thread(target=self._work, name="envweave-step", daemon=True)
                self._alive.add(thread)
                thread.start()
            else:
                self._watch()

    def _watch(self) -> None:
        if self._rescue is None and not self._ending:
            self._rescue = self.loop.call_later(RESCUE_AFTER, self._look_after, self._jobs[0] if self._jobs else None)

    def _look_after(self, first: Job | None) -> None:
        """Wake a thread if the call that was first in the queue still is."""
        self._rescue = None
        if self._answers:  # of a thread that expected to tell them after one more quick call
            self._deliver()
        if not self._jobs:
            return
        if self._jobs[0] is first and (self._asleep or len(self._alive) < self._most):
            self._wake()
        self._watch()

    # In the threads.

    def _work(self) -> None:
        lock = threading.Lock()
        lock.acquire()
        me = threading.get_ident()
        told = time.monotonic()
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:
                self._awake.pop(me, None)
                if self._sleep(lock):
                    told = time.monotonic()
                    continue
                self._alive.discard(threading.current_thread())
                return
            if job.quick:
                self._awake[me] = True
            else:
                self._awake.pop(me, None)
                self._tell()  # what is ready must not wait for this one
            try:
                answer = job.call()
            except BaseException as error:  # whoever asked decides what it means
                answer = error
            self._answers.append((job, answer))
            del job, answer  # a thread that sleeps must not keep what it worked on alive
            if not self._jobs or time.monotonic() - told > TELL_AFTER:
                self._tell()
                told = time.monotonic()

    def _tell(self) -> None:
        """Have the loop deliver the answers there are."""
        if self._answers and not self._told:
            self._told = True
            try:
                self.loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop is closed: nobody waits any more
                self._ending = True

    def _sleep(self, lock: threading.Lock) -> bool:
        """Wait for work; False if there was none for long and the thread may end."""
        if self._ending:
            return False
        self._asleep.append(lock)
        if self._jobs or self._ending:  # came in between
            try:
                self._asleep.remove(lock)
            except ValueError:  # somebody wakes this thread already
                lock.acquire()
            return True
        if lock.acquire(timeout=self._retire_after):
            return True
        try:
            self._asleep.remove(lock)
        except ValueError:
            lock.acquire()
            return True
        return False

    def _deliver(self) -> None:
        self._told = False
        answers = self._answers
        while answers:
            job, answer = answers.popleft()
            try:
                job.done(answer)
            except Exception:  # one receiver's failure is not the next one's
                log.exception("the answer of a call could not be delivered")

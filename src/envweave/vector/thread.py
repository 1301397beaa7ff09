"""Each call on a thread of its own: for steps that wait, on a network, a model or a container."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from envweave.core.backend import Backend
from envweave.core.threads import DaemonThreads
from envweave.errors import EnvError, UsageError, describe
from envweave.vector.arguments import seconds
from envweave.vector.executor import Done, LocalExecutor, close_backend
from envweave.vector.slot import Slot

MAX_WORKERS = 256


@dataclass(slots=True, eq=False)
class ThreadJob:
    """One call, from `submit` to `done`."""

    slot: Slot
    backend: Backend
    kind: str
    data: Any
    done: Done
    started: float | None = None
    given_up: bool = False


class ThreadExecutor(LocalExecutor):
    """At most `max_workers` calls run at once (by default one for each environment, up to 256).

    A call that takes longer than `step_timeout` is given up. A thread cannot be stopped, so it is left behind, and its
    environment is closed when the call returns. Environments that may hang for good belong in processes.
    """

    def __init__(self, *, max_workers: int | None = None, step_timeout: float | None = None) -> None:
        for name, value in (("max_workers", max_workers), ("step_timeout", seconds(step_timeout))):
            if value is not None and value <= 0:
                raise UsageError(f"{name} is {value}", "use a positive number")
        self._max_workers = min(max_workers or MAX_WORKERS, MAX_WORKERS)
        self._step_timeout = seconds(step_timeout)
        self._threads = DaemonThreads("envweave-vector")
        self._lock = threading.Lock()
        self._waiting: deque[ThreadJob] = deque()
        self._running: set[ThreadJob] = set()
        self._left_behind = 0
        self._pid = os.getpid()

    @property
    def abandoned(self) -> int:
        """The number of threads left behind in calls that did not return in time."""
        return self._left_behind

    @property
    def thread_count(self) -> int:
        """The number of threads, those left behind included."""
        return self._threads.count

    def submit(self, slot: Slot, kind: str, data: Any, done: Done) -> None:
        with self._lock:
            self._waiting.append(ThreadJob(slot, slot.backend, kind, data, done))
        self._start_waiting()

    def _start_waiting(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or len(self._running) >= self._max_workers:
                    return
                job = self._waiting.popleft()
                self._running.add(job)
            self._threads.submit(partial(self._perform, job), partial(self._finished, job))

    def _perform(self, job: ThreadJob) -> Any:
        job.started = time.monotonic()
        return self.perform(job.slot, job.backend, job.kind, job.data)

    def _finished(self, job: ThreadJob, reply: Any, error: BaseException | None) -> None:
        """On the worker's thread."""
        with self._lock:
            self._running.discard(job)
            given_up, done = job.given_up, job.done
            self._left_behind -= given_up
        if given_up:  # its row was delivered long ago
            close_backend(reply if isinstance(reply, Backend) else job.backend)
            return
        if error is not None and not isinstance(error, Exception):  # SystemExit ends one call, not the process
            error = EnvError(f"the call was stopped by {describe(error)}")
            close_backend(job.backend)
        done(reply, error)
        self._start_waiting()

    def deadline(self) -> float | None:
        if self._step_timeout is None:
            return None
        with self._lock:
            started = [job.started for job in self._running if job.started is not None]
        return min(started, default=time.monotonic()) + self._step_timeout

    def expire(self) -> None:
        if self._step_timeout is None:
            return
        now = time.monotonic()
        with self._lock:
            hung = [job for job in self._running if job.started and now - job.started >= self._step_timeout]
            for job in hung:
                job.given_up = True
                self._running.discard(job)
            self._left_behind += len(hung)
        for job in hung:
            job.slot.abandon()
            job.done(None, EnvError(f"no answer within step_timeout={self._step_timeout:g} s", "look where it hangs"))
        self._start_waiting()

    def close(self, slots: Sequence[Slot], timeout: float) -> set[Slot]:
        """Close each environment as soon as no call on it runs."""
        if self._pid != os.getpid():
            return set()
        stuck = set(slots)
        changed = threading.Condition()

        def closed(slot: Slot, *_: Any) -> None:
            with changed:
                stuck.discard(slot)
                changed.notify()

        def close(slot: Slot, reply: Any = None, _: Any = None) -> None:
            backend = reply if isinstance(reply, Backend) else slot.backend  # a call `open` has just made a new one
            self._threads.submit(partial(close_backend, backend), partial(closed, slot))

        with self._lock:
            self._waiting.clear()
            busy = {job.slot for job in self._running}
            for job in self._running:
                job.done = partial(close, job.slot)
        for slot in slots:
            if slot.episode is not slot.backend.episode:  # its call was given up, and closes it when it returns
                closed(slot)
            elif slot not in busy:
                close(slot)
        end = time.monotonic() + timeout
        with changed:
            changed.wait_for(lambda: not stuck, timeout)
        if not stuck and not self._left_behind:
            self._threads.end(max(0.1, end - time.monotonic()))
        return set(stuck)

"""Each environment's call in a thread: for steps that wait, on a network, a model or a container."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from envweave.core.flows import Blueprint
from envweave.core.local import LocalEnv
from envweave.errors import ClosedError, EnvError, EnvWeaveError, UsageError, describe
from envweave.vector.arguments import seconds
from envweave.vector.base import Call, VectorEnv
from envweave.vector.slot import log

_MOST_WORKERS = 256


@dataclass(slots=True, eq=False)
class _Task:
    """One call. Its identity is the object itself: an answer to a task that was given up is dropped."""

    call: Call
    started: float | None = None
    thread: threading.Thread | None = None


class ThreadVector(VectorEnv):
    """At most `max_workers` calls run side by side (as many as environments, up to 256).

    A call that takes longer than `step_timeout` costs its row; a thread cannot be stopped, so it is left behind and
    another one takes its place. Environments that may hang for good belong in processes.
    """

    def __init__(
        self,
        plans: Sequence[tuple[Blueprint, str]],
        *,
        max_workers: int | None = None,
        step_timeout: float | None = None,
    ) -> None:
        for name, value in (("max_workers", max_workers), ("step_timeout", seconds(step_timeout))):
            if value is not None and value <= 0:
                raise UsageError(f"{name} is {value}", "use a positive number")
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[_Task, Any]] = SimpleQueue()
        self._current: dict[int, _Task] = {}
        self._threads: list[threading.Thread] = []
        self._workers = 0
        """How many of the threads are there for new calls."""
        self._lost: set[threading.Thread | None] = set()
        """Threads left behind in calls that did not return in time."""
        self._step_timeout = seconds(step_timeout)
        self._pid = os.getpid()
        super().__init__(plans)
        self._max_workers = min(max_workers or len(self._slots), _MOST_WORKERS)

    @property
    def abandoned(self) -> int:
        """How many threads are left behind in calls that did not return in time."""
        return len(self._lost)

    def _check_open(self) -> None:
        super()._check_open()
        if self._pid != os.getpid():
            raise ClosedError("the threads of this vector are in another process", "make a vector after the fork")

    def _dispatch(self, call: Call) -> None:
        task = self._current[call.id] = _Task(call)
        if self._workers < min(self._max_workers, len(self._current)):
            self._workers += 1
            self._start_worker()
        self._tasks.put(task)

    def _start_worker(self) -> None:
        name = f"envweave-vector-{len(self._threads)}"
        thread = threading.Thread(target=_work, args=(self._tasks, self._answers), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _wait(self, wanted: set[int], count: int, timeout: float | None) -> None:
        """Only ever waits for the queue; an answer that comes after the time stays there."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self._drain()
            self._give_up_hung()
            enough = len(wanted & self._done.keys()) >= count
            if enough or (end is not None and time.monotonic() >= end):
                return
            self._await_one(end)

    def _await_one(self, end: float | None) -> None:
        ends = [end] if end is not None else []
        if self._step_timeout is not None:
            started = [task.started for task in self._current.values() if task.started is not None]
            ends.append(min(started, default=time.monotonic()) + self._step_timeout)
        wait = max(0.0, min(ends) - time.monotonic()) if ends else None
        try:
            self._take(*self._answers.get(timeout=wait))
        except Empty:
            pass

    def _drain(self) -> None:
        try:
            while True:
                self._take(*self._answers.get_nowait())
        except Empty:
            pass

    def _take(self, task: _Task, result: Any) -> None:
        call = task.call
        if self._current.get(call.id) is not task:  # a late answer: its row was given up long ago
            self._lost.discard(task.thread)
            self._tasks.put(None)  # that thread has its place taken: one may go
            _close_aside(call.slot.env)
            return
        del self._current[call.id]
        if isinstance(result, BaseException):
            result = self._give_up(call, EnvError(f"the call was stopped by {describe(result)}"))
            _close_aside(call.slot.env)
        self._done[call.id] = self._row(call.id, result)

    def _give_up_hung(self) -> None:
        if self._step_timeout is None:
            return
        now = time.monotonic()
        for task in list(self._current.values()):
            if task.started is not None and now - task.started >= self._step_timeout:
                call = task.call
                del self._current[call.id]
                error = EnvError(f"no answer within step_timeout={self._step_timeout:g} s", "look where it hangs")
                self._done[call.id] = self._row(call.id, self._give_up(call, error))
                self._lost.add(task.thread)
                self._start_worker()

    def _give_up(self, call: Call, error: EnvError) -> Any:
        """The row of a call without an answer; whatever still runs in it no longer has a part in the vector."""
        result = call.lost(error)
        self._slots[call.id] = call.slot.heir()
        return result

    def _stop(self, timeout: float) -> set[int]:
        """Have the workers close each environment as soon as no call on it runs, all within the time."""
        if self._pid != os.getpid():
            return set()
        end = time.monotonic() + timeout
        self._step_timeout = None
        if self._current:
            self._start_worker()  # the others may be stuck
        closing: set[int] = set()
        while True:
            self._drain()
            for id, slot in enumerate(self._slots):
                if id not in self._current and id not in closing:
                    closing.add(id)
                    self._dispatch(Call(id, slot, partial(_close, slot.env), slot.lose_step))
            if not self._current or time.monotonic() >= end:
                break
            self._await_one(end)
        for _ in self._threads:
            self._tasks.put(None)
        busy = self._lost | {task.thread for task in self._current.values()}
        for thread in self._threads:
            if thread not in busy:
                thread.join(max(0.0, end - time.monotonic()))
        return set(self._current)


def _work(tasks: SimpleQueue[_Task | None], answers: SimpleQueue[tuple[_Task, Any]]) -> None:
    while (task := tasks.get()) is not None:
        task.thread, task.started = threading.current_thread(), time.monotonic()
        try:
            result = task.call.run()
        except BaseException as error:  # whatever it is, somebody waits for this answer
            result = error
        answers.put((task, result))


def _close_aside(env: LocalEnv) -> None:
    """Close an environment that nobody waits for, in a thread of its own: its close may hang as well."""
    threading.Thread(target=_close, args=(env,), name=f"envweave-close-{env.id}", daemon=True).start()


def _close(env: LocalEnv) -> None:
    try:
        env.close()
    except EnvWeaveError as error:
        log.warning("%s did not close: %s", env.id, error.message)

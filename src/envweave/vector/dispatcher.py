"""Runs the flows of a vector's slots: has executors make their calls, and keeps the rows until they are received."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from envweave.errors import BatchRefusedError, EnvError, EnvWeaveError, UsageError, describe
from envweave.vector.arguments import label_errors
from envweave.vector.executor import Executor
from envweave.vector.slot import Slot, SlotFlow

Answer: TypeAlias = "tuple[Task | None, Any, BaseException | None]"
"""The reply to a call of a task, or None and the exception. Without a task it only wakes the waiter up."""

RowValues: TypeAlias = tuple[int, int, int, Any]
"""The environment, its incarnation, the number of the step and the result."""


class Task:
    """What runs for one row, and the batch it was sent with.

    A step is one call with an admitted action, and becomes a flow only if that call fails or ends the episode. All
    other tasks are flows from the beginning.
    """

    __slots__ = ("action", "answers", "batch", "flow", "id", "kind", "slot")

    def __init__(self, id: int, slot: Slot, kind: str, flow: SlotFlow[Any] | None = None, action: Any = None) -> None:
        """`kind` is `step`, `reset`, `respond`, or `recover` for a step that tries to begin the next episode."""
        self.id = id
        self.slot = slot
        self.kind = kind
        self.flow = flow
        self.action = action
        self.batch: SentTogether
        self.answers: SimpleQueue[Answer]

    def __call__(self, reply: Any, error: BaseException | None) -> None:
        """The `done` of its call, on whichever thread."""
        self.answers.put((self, reply, error))

    @property
    def waits(self) -> bool:
        """It begins only when another task of its batch was accepted."""
        return self.kind == "recover" and self.slot.executor.refuses_late


class SentTogether:
    """Tasks that were sent together. If servers refuse all of them, nothing has changed and the caller is told.

    A refusal beside a task that was accepted, or that runs in this process, is the failure of its own row.
    """

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks = tasks
        self.ids = {task.id for task in tasks}
        self.accepted = all(task.waits for task in tasks) or any(not t.slot.executor.refuses_late for t in tasks)
        self.refused: dict[int, tuple[Task, UsageError]] = {}

    def all_refused(self) -> bool:
        return not self.accepted and len(self.refused) == sum(not task.waits for task in self.tasks)

    def error(self) -> UsageError:
        """Of the row whose action was wrong, rather than of one that was refused because of another."""
        refused = [self.refused[task.id] for task in self.tasks if task.id in self.refused]
        wrong = [each for each in refused if not isinstance(each[1], BatchRefusedError)]
        task, error = (wrong or refused)[0]
        try:
            with label_errors(task.id):
                raise error
        except UsageError as labelled:
            return labelled


class Dispatcher:
    """Works only while somebody calls it, on that thread; other threads only add answers."""

    def __init__(self, executors: Collection[Executor]) -> None:
        self._executors = executors
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._tasks: dict[int, Task] = {}
        """What runs now, by environment."""
        self._refused: list[SentTogether] = []
        """Batches that were refused, until the caller is told."""
        self._interrupted = False
        self.ready: dict[int, RowValues] = {}
        """Rows that were not received yet, in the order they came."""
        self.in_flight: set[int] = set()
        """Environments that were sent something and whose row was not received yet."""

    def send(self, tasks: list[Task]) -> None:
        """Begin the tasks: first those that others run for us, then those that run in this thread."""
        batch = SentTogether(tasks)
        for task in tasks:
            task.batch, task.answers = batch, self._answers
            self._tasks[task.id] = task
        self.in_flight |= batch.ids
        here = []
        for task in tasks:
            if task.slot.executor.inline:
                here.append(task)
            elif batch.accepted or not task.waits:
                self._begin(task)
        self._flush()
        for number, task in enumerate(here):
            try:
                self._begin(task)
            except BaseException:  # Ctrl-C: what has not ended is as if it had not been sent
                self._forget(here[number:])
                raise

    def wait(self, wanted: set[int], count: int, timeout: float | None) -> None:
        """Return when `count` of the wanted are ready, the time is over or somebody interrupts.

        Raises the `UsageError` of wanted ones that were refused; they are not in flight any more.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self.take_answers()
            self._tell_refusal(wanted)
            late = end is not None and time.monotonic() >= end
            if len(wanted & self.ready.keys()) >= count or late or self._interrupted:
                return
            try:
                self._take(self._answers.get(timeout=self._pause(end)))
            except Empty:
                pass

    def take_answers(self) -> None:
        """Let all flows go on whose replies are there, without waiting; give up calls that take too long."""
        for executor in self._executors:
            executor.expire()
        try:
            while True:
                self._take(self._answers.get_nowait())
        except Empty:
            self._flush()

    def receive(self, ids: Iterable[int]) -> list[RowValues]:
        """Hand out rows that are ready."""
        rows = [self.ready.pop(id) for id in ids]
        self.in_flight.difference_update([row[0] for row in rows])
        return rows

    def give_back(self, rows: Iterable[RowValues]) -> None:
        """Have rows ready again that were handed out, because their receiver is gone."""
        self.ready = {row[0]: row for row in rows} | self.ready
        self.in_flight.update(self.ready)

    def interrupt(self) -> None:
        """Have waits return as if their time were over, until `resume`. For any thread."""
        self._interrupted = True
        self._answers.put((None, None, None))

    def resume(self) -> None:
        self._interrupted = False

    def _flush(self) -> None:
        for executor in self._executors:
            executor.flush()

    def _pause(self, end: float | None) -> float | None:
        ends = [end, *(executor.deadline() for executor in self._executors)]
        known = [each for each in ends if each is not None]
        return max(0.0, min(known) - time.monotonic()) if known else None

    # One task.

    def _take(self, answer: Answer) -> None:
        task, reply, error = answer
        if task is None or self._tasks.get(task.id) is not task:
            return
        if task.flow is not None:
            self._advance(task, reply, error)
        elif error is None and not (task.slot.autoreset and reply.done):
            self._finish(task, reply)
        else:
            slot = task.slot
            task.flow = slot.followed(reply) if error is None else slot.failed(_env_error(error))
            self._advance(task, None, None)

    def _begin(self, task: Task) -> None:
        if task.flow is None:
            task.slot.executor.submit(task.slot, "advance", task.action, task)
        else:
            self._advance(task, None, None)

    def _advance(self, task: Task, reply: Any, error: BaseException | None) -> None:
        """Let the task's flow go on with a reply; it ends, or makes another call."""
        flow: Any = task.flow
        try:
            kind, data = flow.send(reply) if error is None else flow.throw(_env_error(error))
        except StopIteration as stop:
            self._finish(task, stop.value)
        except UsageError as refusal:
            self._refuse(task, refusal)
        else:
            task.slot.executor.submit(task.slot, kind, data, task)

    def _finish(self, task: Task, result: Any) -> None:
        slot = task.slot
        del self._tasks[task.id]
        self.ready[task.id] = (task.id, slot.incarnation, slot.episode.step_count, result)
        batch = task.batch
        if slot.executor.refuses_late and (batch.refused or not batch.accepted):
            self._accept(batch)

    def _accept(self, batch: SentTogether) -> None:
        """Something of the batch was used: refusals in it are rows, and what waited for that can begin."""
        if not batch.accepted:
            batch.accepted = True
            for task in batch.tasks:
                if task.waits:
                    self._begin(task)
        refused, batch.refused = batch.refused, {}
        for task, error in refused.values():
            is_reset = task.kind == "reset"
            self._finish(task, task.slot.no_reset(error) if is_reset else task.slot.unscored(error))

    def _refuse(self, task: Task, error: UsageError) -> None:
        batch = task.batch
        batch.refused[task.id] = (task, error)
        if batch.accepted:
            self._accept(batch)
        elif batch.all_refused():
            self._refused.append(batch)

    def _tell_refusal(self, wanted: set[int]) -> None:
        for batch in self._refused:
            if batch.ids & wanted:
                self._refused.remove(batch)
                self._forget(batch.tasks)
                raise batch.error()

    def _forget(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self._tasks.pop(task.id, None)
            self.in_flight.discard(task.id)


def _env_error(error: BaseException) -> EnvWeaveError:
    """The error for the row: executors may also pass on what was not expected."""
    return error if isinstance(error, EnvWeaveError) else EnvError(f"the call failed: {describe(error)}")

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

Answer: TypeAlias = "tuple[RowJob | None, Any, BaseException | None]"
"""The reply to a call of a job, or None and the exception. Without a job it only wakes the waiter up."""

RowValues: TypeAlias = tuple[int, int, int, Any]
"""The environment, its incarnation, the number of the step and the result."""


class RowJob:
    """What runs for one row, and the batch it was sent with.

    A step is one call with an admitted action, and becomes a flow only if that call fails or ends the episode. All
    other jobs are flows from the beginning.
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
        """It begins only when another job of its batch was accepted."""
        return self.kind == "recover" and self.slot.executor.refuses_late


class SentTogether:
    """Jobs that were sent together. If servers refuse all of them, nothing has changed and the caller is told.

    A refusal beside a job that was accepted, or that runs in this process, is the failure of its own row.
    """

    def __init__(self, jobs: list[RowJob]) -> None:
        self.jobs = jobs
        self.ids = {job.id for job in jobs}
        self.accepted = all(job.waits for job in jobs) or any(not each.slot.executor.refuses_late for each in jobs)
        self.refused: dict[int, tuple[RowJob, UsageError]] = {}

    def all_refused(self) -> bool:
        return not self.accepted and len(self.refused) == sum(not job.waits for job in self.jobs)

    def error(self) -> UsageError:
        """Of the row whose action was wrong, rather than of one that was refused because of another."""
        refused = [self.refused[job.id] for job in self.jobs if job.id in self.refused]
        wrong = [each for each in refused if not isinstance(each[1], BatchRefusedError)]
        job, error = (wrong or refused)[0]
        try:
            with label_errors(job.id):
                raise error
        except UsageError as labelled:
            return labelled


class Dispatcher:
    """Works only while somebody calls it, on that thread; other threads only add answers."""

    def __init__(self, executors: Collection[Executor]) -> None:
        self._executors = executors
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._jobs: dict[int, RowJob] = {}
        """What runs now, by environment."""
        self._refused: list[SentTogether] = []
        """Batches that were refused, until the caller is told."""
        self._interrupted = False
        self.ready: dict[int, RowValues] = {}
        """Rows that were not received yet, in the order they came."""
        self.in_flight: set[int] = set()
        """Environments that were sent something and whose row was not received yet."""

    def send(self, jobs: list[RowJob]) -> None:
        """Begin the jobs: first those that others run for us, then those that run in this thread."""
        batch = SentTogether(jobs)
        for job in jobs:
            job.batch, job.answers = batch, self._answers
            self._jobs[job.id] = job
        self.in_flight |= batch.ids
        here = []
        for job in jobs:
            if job.slot.executor.inline:
                here.append(job)
            elif batch.accepted or not job.waits:
                self._begin(job)
        self._flush()
        for number, job in enumerate(here):
            try:
                self._begin(job)
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

    # One job.

    def _take(self, answer: Answer) -> None:
        job, reply, error = answer
        if job is None or self._jobs.get(job.id) is not job:
            return
        if job.flow is not None:
            self._advance(job, reply, error)
        elif error is None and not (job.slot.autoreset and reply.done):
            self._finish(job, reply)
        else:
            slot = job.slot
            job.flow = slot.followed(reply) if error is None else slot.failed(_env_error(error))
            self._advance(job, None, None)

    def _begin(self, job: RowJob) -> None:
        if job.flow is None:
            job.slot.executor.submit(job.slot, "advance", job.action, job)
        else:
            self._advance(job, None, None)

    def _advance(self, job: RowJob, reply: Any, error: BaseException | None) -> None:
        """Let the job's flow go on with a reply; it ends, or makes another call."""
        flow: Any = job.flow
        try:
            kind, data = flow.send(reply) if error is None else flow.throw(_env_error(error))
        except StopIteration as stop:
            self._finish(job, stop.value)
        except UsageError as refusal:
            self._refuse(job, refusal)
        else:
            job.slot.executor.submit(job.slot, kind, data, job)

    def _finish(self, job: RowJob, result: Any) -> None:
        slot = job.slot
        del self._jobs[job.id]
        self.ready[job.id] = (job.id, slot.incarnation, slot.episode.step_count, result)
        batch = job.batch
        if slot.executor.refuses_late and (batch.refused or not batch.accepted):
            self._accept(batch)

    def _accept(self, batch: SentTogether) -> None:
        """Something of the batch was used: refusals in it are rows, and what waited for that can begin."""
        if not batch.accepted:
            batch.accepted = True
            for job in batch.jobs:
                if job.waits:
                    self._begin(job)
        refused, batch.refused = batch.refused, {}
        for job, error in refused.values():
            is_reset = job.kind == "reset"
            self._finish(job, job.slot.no_reset(error) if is_reset else job.slot.unscored(error))

    def _refuse(self, job: RowJob, error: UsageError) -> None:
        batch = job.batch
        batch.refused[job.id] = (job, error)
        if batch.accepted:
            self._accept(batch)
        elif batch.all_refused():
            self._refused.append(batch)

    def _tell_refusal(self, wanted: set[int]) -> None:
        for batch in self._refused:
            if batch.ids & wanted:
                self._refused.remove(batch)
                self._forget(batch.jobs)
                raise batch.error()

    def _forget(self, jobs: Iterable[RowJob]) -> None:
        for job in jobs:
            self._jobs.pop(job.id, None)
            self.in_flight.discard(job.id)


def _env_error(error: BaseException) -> EnvWeaveError:
    """The error for the row: executors may also pass on what was not expected."""
    return error if isinstance(error, EnvWeaveError) else EnvError(f"the call failed: {describe(error)}")

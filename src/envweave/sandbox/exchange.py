"""One question to a worker and what comes of it: an answer, or an end.

While the worker is busy we read what it prints, run the tools it calls, and look at the clock: at the end of its time
it is interrupted, and if that does not help, killed. All that is said of limits, time and death is what this side saw.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from envweave.sandbox.calls import Calls
from envweave.sandbox.guest.frames import BadFrame, Frame, Hangup, Message
from envweave.sandbox.limits import LimitHit, Limits
from envweave.sandbox.line import Line
from envweave.sandbox.output import Output
from envweave.sandbox.supervision import Supervision
from envweave.sandbox.waiting import Wait

FIRST_LOOK, LOOK_EVERY = 0.05, 0.1
"""Seconds into a run, and between two looks at what it uses."""


_IDS: list[str] = []


def fresh_id() -> str:
    """One that nobody can foresee. Chance is fetched for many at once, for to ask the kernel costs a microsecond."""
    try:
        return _IDS.pop()
    except IndexError:
        data = os.urandom(8 * 128).hex()
        _IDS.extend(data[place : place + 16] for place in range(16, len(data), 16))
        return data[:16]


@dataclass
class Desk:
    """What a worker is talked to with."""

    control: Line
    out: int
    err: int
    supervision: Supervision
    watch: frozenset[str]


@dataclass
class Outcome:
    """What became of a question."""

    out: Output
    err: Output
    answer: Message | None = None
    """None if the worker is gone, or must go."""
    limit: LimitHit | None = None
    interrupted: bool = False
    exit_code: int | None = None
    reason: str = ""
    """Why there is no answer, if no limit says it."""
    duration: float = 0.0


@dataclass
class Exchange:
    """The course of one question."""

    desk: Desk
    limits: Limits
    calls: Calls
    wall: float | None
    id: str = field(default_factory=fresh_id)

    def __post_init__(self) -> None:
        self.outcome = Outcome(Output(self.limits.output_bytes), Output(self.limits.output_bytes))
        self._streams = {self.desk.out: self.outcome.out, self.desk.err: self.outcome.err}
        self._heard_more = False
        self._interrupt_at: float | None = None
        self.began = time.monotonic()
        self._code_since: float | None = self.began
        self._code_time = 0.0
        self._wait_cpu: float | None = None
        self._cpu_before: float | None = None
        self._look_at = self._first_look()

    async def run(
        self, wait: Wait, question: Message | None = None, blob: bytes = b"", descriptors: Sequence[int] = ()
    ) -> Outcome:
        """Ask and wait for the answer; without a question, only wait: the worker has it already.

        If the caller is cancelled, the code is interrupted, and `give_up` collects the answer.
        """
        desk = self.desk
        desk.supervision.forget_measures()
        try:
            if question is not None:
                await desk.control.send(wait, {**question, "id": self.id}, blob, descriptors)
        except Hangup:
            await self._account_for_death(wait)
        try:
            return await self._finish(wait)
        except BaseException:
            with suppress(Hangup):
                await self.interrupt(wait)
            raise

    async def interrupt(self, wait: Wait) -> None:
        """As by Ctrl-C. May be called from elsewhere while the question is open."""
        with suppress(Hangup):  # so that it is not taken for an older one; who does not read will be killed anyway
            await self.desk.control.send(wait, {"op": "interrupt", "id": self.id}, timeout=0.05)
        await self.desk.supervision.tell(wait, "interrupt")

    async def give_up(self, wait: Wait) -> Outcome:
        """The end of a question that nobody waits for any more."""
        try:
            await self.desk.control.finish(wait, self.limits.grace)
            await self.interrupt(wait)
        except Hangup:
            self.outcome.reason = "it could not be reached"
        self._interrupt_at = time.monotonic()
        return await self._finish(wait)

    async def _finish(self, wait: Wait) -> Outcome:
        try:
            await self._listen(wait, self.desk.control.buffered())
            self._heard_more = self._heard_more or self.outcome.answer is not None
            while self.outcome.answer is None and not self.outcome.reason:
                await self._turn(wait)
        except Hangup:
            await self._account_for_death(wait)
        except BadFrame as error:
            self.outcome.reason = f"the worker sent {error}"
        if self.outcome.answer is None or self._heard_more:  # else what was printed before the answer came with it
            for descriptor, output in self._streams.items():
                output.drain(descriptor)
        self.outcome.duration = time.monotonic() - self.began
        return self.outcome

    async def _turn(self, wait: Wait) -> None:
        """Wait for the next thing that happens, and deal with it."""
        desk = self.desk
        watched = [desk.control.descriptor, desk.supervision.descriptor, *self._streams, *self.calls.descriptors]
        ready = await wait.readable(watched, self._patience())
        for descriptor in ready:
            if descriptor in self._streams and not self._streams[descriptor].drain(descriptor):
                del self._streams[descriptor]
        if desk.control.descriptor in ready:
            await self._listen(wait, desk.control.pull())
        if self.outcome.answer is not None:
            return
        if desk.supervision.descriptor in ready:
            desk.supervision.pull()
            if desk.supervision.death is not None:
                raise Hangup
            await self._judge(wait, desk.supervision.measured())
        if self.calls.waiting or self.calls.rung(ready):
            for answer in self.calls.finished():
                await self._answer(wait, answer)
        await self._mind_the_time(wait)

    async def _listen(self, wait: Wait, frames: Iterator[Frame]) -> None:
        for message, _ in frames:
            if message.get("op") == "result" and message.get("id") == self.id:
                self.outcome.answer = message
                return
            self._heard_more = True
            if message.get("id") != self.id:  # to an older question, or made up
                continue
            if message.get("op") == "call":
                answer = self.calls.start(message)
                if answer is not None:
                    await self._answer(wait, answer)
                elif self.calls.waiting and self._code_since is not None:
                    self._code_time += time.monotonic() - self._code_since
                    self._code_since = self._wait_cpu = None
                    self._look_at = self._look_at or time.monotonic() + FIRST_LOOK

    async def _answer(self, wait: Wait, answer: Message) -> None:
        if not self.calls.waiting and self._code_since is None:
            self._code_since = time.monotonic()
        left = 5.0 if self.wall is None else max(0.05, min(5.0, self.wall - self._spent()))
        try:
            await self.desk.control.send(wait, answer, timeout=left)
        except Hangup:
            raise BadFrame("questions, and does not read the answers") from None

    # The clock.

    def _spent(self) -> float:
        """Seconds of the code's own time. While it waits for a tool, only what it computes counts."""
        running = time.monotonic() - self._code_since if self._code_since is not None else 0.0
        return self._code_time + running

    def _patience(self) -> float | None:
        now = time.monotonic()
        if self._interrupt_at is not None:
            return max(0.0, self._interrupt_at + self.limits.grace - now)
        ends = [self._look_at] if self._look_at is not None else []
        if self.wall is not None and self._code_since is not None:
            ends.append(now + self.wall - self._spent())
        if (late := self.calls.next_end()) is not None:
            ends.append(late)
        return max(0.0, min(ends) - now) if ends else None

    async def _mind_the_time(self, wait: Wait) -> None:
        now = time.monotonic()
        if self._interrupt_at is not None:
            if now >= self._interrupt_at + self.limits.grace:
                self.outcome.reason = "it did not stop when it was interrupted"
            return
        if self.wall is not None and self._spent() >= self.wall:
            await self._stop(wait, LimitHit("wall", self.wall))
        elif self._look_at is not None and now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            await self._look(wait)

    async def _stop(self, wait: Wait, limit: LimitHit) -> None:
        """The friendly way: an interrupt, which the code sees as Ctrl-C."""
        self.outcome.limit, self.outcome.interrupted = limit, True
        self._interrupt_at = time.monotonic()
        await self.interrupt(wait)

    # What it uses.

    def _first_look(self) -> float | None:
        """At once where processor time counts: what was used before this run has to be known."""
        if self.limits.cpu is not None:
            return self.began
        return self.began + FIRST_LOOK if self.desk.watch else None

    async def _look(self, wait: Wait) -> None:
        watch = self.desk.watch
        memory = self.limits.memory_bytes if "memory_bytes" in watch else None
        await self.desk.supervision.tell(wait, "measure", memory=memory, disk="disk_bytes" in watch)

    async def _judge(self, wait: Wait, measured: Message | None) -> None:
        """Too much of anything but processor time is not to be had back by an interrupt."""
        if measured is None or self._interrupt_at is not None:
            return
        for name in ("memory_bytes", "processes", "disk_bytes"):
            limit = getattr(self.limits, name)
            if name in self.desk.watch and limit is not None and measured.get(name, 0) > limit:
                self.outcome.limit = LimitHit(name, limit)
                self.outcome.reason = f"it used more than {name}={limit}"
                return
        cpu: float = measured["cpu"]
        if self._code_since is None:
            self._code_time += cpu - self._wait_cpu if self._wait_cpu is not None else 0.0
            self._wait_cpu = cpu
        if self._cpu_before is None:
            self._cpu_before = cpu
        if self.limits.cpu is not None and cpu - self._cpu_before >= self.limits.cpu:
            await self._stop(wait, LimitHit("cpu", self.limits.cpu))

    async def _account_for_death(self, wait: Wait) -> None:
        """The worker is gone, or pretends to be: its supervisor knows."""
        death = await self.desk.supervision.await_death(wait, 1.0)
        self.outcome.exit_code = death
        self.outcome.reason = "its process ended" if death is not None else "it closed the line to us"

"""What a session sits on: a worker that runs its code, the line to its supervisor, and its files."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from envweave.errors import SandboxError, UsageError
from envweave.sandbox.base import Boundary, Place
from envweave.sandbox.calls import Calls, about
from envweave.sandbox.cgroup import Group
from envweave.sandbox.ends import Ends
from envweave.sandbox.exchange import Desk, Exchange, Outcome, fresh_id
from envweave.sandbox.guest.frames import BadFrame, Hangup, Message, close_all
from envweave.sandbox.limits import Limits
from envweave.sandbox.output import Output
from envweave.sandbox.reins import Reins, take_reins
from envweave.sandbox.supervision import Supervision
from envweave.sandbox.waiting import LOOPING, Wait, whole

START = 60.0


@dataclass
class Family:
    """A session and its forks share a place, and it ends with the last of them."""

    boundary: Boundary
    place: Place
    limits: Limits
    members: int = 1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def join(self) -> None:
        with self._lock:
            self.members += 1

    def leave(self) -> bool:
        """True for the last."""
        with self._lock:
            self.members -= 1
            return not self.members


class Seat:
    """Use by one caller at a time. After an exception other than ours, `catch_up` before anything else."""

    def __init__(self, family: Family, supervision: Supervision) -> None:
        self.family = family
        self.supervision = supervision
        self.limits = family.limits
        self.desk: Desk | None = None
        self.group: Group | None = None
        self.open_question: Exchange | None = None
        self._next_id = ""
        """Of the question that the worker answers after the open one, without being asked again."""
        self._reins: Reins | None = None
        self._halted: int | None = None
        self._last: bool | None = None
        """Once it is closed: was it the last of its family?"""

    @classmethod
    async def take(cls, wait: Wait, boundary: Boundary, limits: Limits) -> Seat:
        """A new place with a worker in it."""
        try:
            place = await boundary.open(wait, limits)
        except OSError as error:
            raise SandboxError(f"no session: {error}") from None
        seat = cls(Family(boundary, place, limits), place.supervision)
        try:
            await seat.spawn(wait)
        except BaseException as error:
            await seat.close(wait)
            if isinstance(error, Hangup | OSError):
                raise SandboxError(f"no session: {str(error) or 'its supervisor is gone'}") from None
            raise
        return seat

    async def spawn(self, wait: Wait) -> None:
        """A fresh worker, where there is none."""
        self._drop_desk()
        self.supervision.death = None
        self._make_group()
        doors = self.group.doors() if self.group is not None else []
        try:
            with Ends() as ends:
                descriptors = (*ends.theirs, *doors)
                answer, _ = await self.supervision.ask(wait, "spawn", b"", descriptors, groups=len(doors))
                if "refused" in answer:
                    raise SandboxError(f"no process for the session: {answer['refused']}")
                self.sit(ends)
        finally:
            close_all(doors)
        _, pid = await self.greet(wait, START)
        self.hold(pid)
        if self.group is not None and pid is not None and not doors:
            self.group.add(pid)

    def _make_group(self) -> None:
        groups = self.family.boundary.groups
        if self.group is None and groups is not None:
            try:
                self.group = groups.make(memory_bytes=self.limits.memory_bytes, processes=self.limits.processes)
            except OSError as error:
                raise SandboxError(f"no control group for the session: {error}") from None

    def sit(self, ends: Ends) -> None:
        """From here on, this is who we talk to."""
        self.desk = Desk(*ends.take(self.limits.return_bytes), self.supervision, self.family.place.watch)

    async def greet(self, wait: Wait, timeout: float) -> tuple[Message, int | None]:
        """The first words of the worker, and its process. Before it has run code, both can be believed."""
        desk = self.the_desk()
        try:
            return await desk.control.first(wait, timeout)
        except (Hangup, BadFrame):
            said = Output(1000)
            said.drain(desk.err)
            why = said.text().strip() or "it said nothing"
            raise SandboxError(f"the session's process did not start: {why}") from None

    def hold(self, pid: int | None) -> None:
        """Take the worker by its reins."""
        if pid is not None:
            self._reins = take_reins(pid, self.family.place.supervisor)

    def move(self, pid: int | None) -> None:
        """Give a worker that comes from elsewhere a group of its own."""
        self._make_group()
        if self.group is not None and pid is not None:
            self.group.add_aside(pid)

    async def hand_tools(self, wait: Wait, calls: Calls) -> None:
        """Make the tools callable inside."""
        if calls.tools:
            told = {name: about(tool, name) for name, tool in calls.tools.items()}
            if (await self.ask(wait, calls, {"op": "tools", "tools": told})).answer is None:
                raise SandboxError("the session's process has not taken its tools")

    async def ask(
        self,
        wait: Wait,
        calls: Calls,
        question: Message,
        blob: bytes = b"",
        wall: float | None = None,
        descriptors: Sequence[int] = (),
        then: Message | None = None,
    ) -> Outcome:
        """Ask the worker. Between two questions it stands still, and so does all that it has left behind.

        If it has answered, it goes on with the question `then`; `ask_next` returns what comes of that.
        """
        await self.wake(wait)  # first of all: it takes as long to wake as we take to write the question
        calls.begin(asyncio.get_running_loop() if wait is LOOPING else None)
        exchange = self.open_question = Exchange(self.the_desk(), self.limits, calls, wall)
        if then is not None:
            self._next_id = fresh_id()
            question = {**question, "then": {**then, "id": self._next_id}}
        outcome = await exchange.run(wait, question, blob, descriptors)
        if not self._turn_to_next(outcome):
            await self.halt(wait)
        return outcome

    async def ask_next(self, wait: Wait) -> Outcome:
        """The outcome of `then`. It has the time of the question before it once more, and no tools."""
        if self.open_question is None:
            raise SandboxError("there is no open question")
        outcome = await self.open_question.run(wait)
        self._turn_to_next(outcome)
        await self.halt(wait)
        return outcome

    def _turn_to_next(self, outcome: Outcome) -> bool:
        """After the outcome of the open question: is there another one that the worker answers now?"""
        before, self.open_question, number, self._next_id = self.open_question, None, self._next_id, ""
        if before is None or not number or outcome.answer is None:
            return False
        wall = before.wall if before.wall is not None else self.limits.wall
        self.open_question = Exchange(self.the_desk(), self.limits, Calls({}, self.limits), wall, number)
        return True

    async def catch_up(self, wait: Wait) -> Outcome:
        """The outcome of a question whose asker was cancelled."""
        if self.open_question is None:
            raise SandboxError("there is no open question")
        await self.wake(wait)  # if that was as far as it came
        outcome = await self.open_question.give_up(wait)
        while self._turn_to_next(outcome):
            outcome = await self.open_question.give_up(wait)
        await self.halt(wait)
        return outcome

    async def halt(self, wait: Wait) -> None:
        """The worker at once, where we can; all others, if there may be some, by its supervisor."""
        held = self._reins is not None and self._reins.pull() and self._reins.alone(self.family.members)
        if held and not self.supervision.interrupts:  # an interrupt under way would hit the next run
            return
        self.supervision.interrupts = False
        with suppress(Hangup):
            self._halted = await self.supervision.begin(wait, "halt")

    async def wake(self, wait: Wait) -> None:
        """Let it go on, as soon as all has been stopped that was to be."""
        if self._halted is not None:
            await self.supervision.answer(wait, self._halted)
            await self.supervision.tell(wait, "wake")
            self._halted = None
        elif self._reins is not None:
            self._reins.loosen()

    def alive(self) -> bool:
        """Has its worker been heard of, and not ended since?"""
        try:
            self.supervision.pull()
        except Hangup:
            return False
        return self.desk is not None and self.supervision.death is None

    def out_of_memory(self) -> bool:
        """Has the kernel killed a process of the session for its memory since we last asked?"""
        look = self.group.killed if self.group is not None else self.family.place.out_of_memory
        return look is not None and look()

    async def end_processes(self, wait: Wait) -> None:
        """Kill everything of this session; its files stay."""
        self._halted = None
        await self.supervision.ask(wait, "end")

    async def files(self, wait: Wait, op: str, blob: bytes = b"", **fields: Any) -> tuple[Message, bytes]:
        """Read, write or list files of the work folder. The worker has no part in it."""
        answer, data = await self.supervision.ask(wait, op, blob, **fields)
        if "refused" in answer:
            raise UsageError(f"cannot {op} {fields.get('path', 'files')!r}: {answer['refused']}")
        return answer, data

    async def close(self, wait: Wait) -> None:
        """Let go. The place ends with the last seat in it. Interrupted in the middle, it can be called again."""
        await whole(wait, self._close(wait))

    async def _close(self, wait: Wait) -> None:
        self._drop_desk()
        self.supervision.line.close()
        if self._last is None:
            self._last = self.family.leave()
        if self._last:
            await self.family.boundary.end(wait, self.family.place)
        if self.group is not None:
            await self.group.remove(wait)
            self.group = None

    def the_desk(self) -> Desk:
        if self.desk is None:
            raise SandboxError("the session has no process")
        return self.desk

    def _drop_desk(self) -> None:
        if self._reins is not None:
            self._reins.drop()
            self._reins = None
        if self.desk is not None:
            self.desk.control.close()
            os.close(self.desk.out)
            os.close(self.desk.err)
            self.desk = None

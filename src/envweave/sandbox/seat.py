"""What a session sits on: a worker that runs its code, the line to its supervisor, and its files."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from envweave.errors import SandboxError, UnsupportedError, UsageError
from envweave.sandbox.base import Boundary, Place
from envweave.sandbox.calls import Calls, about
from envweave.sandbox.cgroup import Group
from envweave.sandbox.exchange import Desk, Exchange, Outcome
from envweave.sandbox.guest.frames import BadFrame, Hangup, Message
from envweave.sandbox.limits import Limits
from envweave.sandbox.line import Line, pair, pipe
from envweave.sandbox.supervision import Supervision
from envweave.sandbox.waiting import LOOPING, Wait

_START = 60.0
_QUICK = 0.0005
"""Seconds in which no process and no thread can be left behind."""
_FRAME_SLACK = 1 << 20


@dataclass
class Family:
    """A session and its forks share a place, and it ends with the last of them."""

    boundary: Boundary
    place: Place
    limits: Limits
    members: int = 1


class Seat:
    """Use by one caller at a time. After an exception other than ours, `catch_up` before anything else."""

    def __init__(self, family: Family, supervision: Supervision) -> None:
        self.family = family
        self.supervision = supervision
        self.limits = family.limits
        self.desk: Desk | None = None
        self.group: Group | None = None
        self.open_question: Exchange | None = None
        self._settling: int | None = None

    @classmethod
    async def take(cls, wait: Wait, boundary: Boundary, limits: Limits) -> Seat:
        """A new place with a worker in it."""
        place = await boundary.open(wait, limits)
        seat = cls(Family(boundary, place, limits), place.supervision)
        try:
            await seat.spawn(wait)
        except BaseException:
            await seat.close(wait)
            raise
        return seat

    async def spawn(self, wait: Wait) -> None:
        """A fresh worker, where there is none."""
        self._drop_desk()
        self.supervision.death = None
        with _Ends() as ends:
            answer, _ = await self.supervision.ask(wait, "spawn", descriptors=ends.theirs)
            if "refused" in answer:
                raise SandboxError(f"no process for the session: {answer['refused']}")
            self.desk = ends.desk(self)
        await self._greet(wait)

    async def _greet(self, wait: Wait) -> Message:
        """Wait for the worker, and put it where its memory and processes are counted."""
        desk = self._desk()
        try:
            hello, pid = await desk.control.first(wait, _START)
        except (Hangup, BadFrame):
            said = os.read(desk.err, 1000).decode(errors="replace").strip()
            raise SandboxError(f"the session's process did not start: {said or 'it said nothing'}") from None
        groups = self.family.boundary.groups
        if groups is not None and pid is not None:
            if self.group is None:
                self.group = groups.make(memory_bytes=self.limits.memory_bytes, processes=self.limits.processes)
            if self.group is not None:
                self.group.add(pid)
        return hello

    async def hand_tools(self, wait: Wait, calls: Calls) -> None:
        """Make the tools callable inside."""
        if calls.tools:
            told = {name: about(tool, name) for name, tool in calls.tools.items()}
            await self.ask(wait, calls, {"op": "tools", "tools": told})

    async def ask(
        self, wait: Wait, calls: Calls, question: Message, blob: bytes = b"", wall: float | None = None
    ) -> Outcome:
        """Ask the worker. What it leaves running is stopped until the next question."""
        await self._wake(wait)
        calls.begin(asyncio.get_running_loop() if wait is LOOPING else None)
        exchange = self.open_question = Exchange(self._desk(), self.limits, calls, wall)
        outcome = await exchange.run(wait, question, blob)
        self.open_question = None
        await self._settle(wait, outcome)
        return outcome

    async def catch_up(self, wait: Wait) -> Outcome | None:
        """The outcome of a question whose asker was cancelled, if there is one."""
        if self.open_question is None:
            return None
        outcome = await self.open_question.give_up(wait)
        self.open_question = None
        await self._settle(wait, outcome)
        return outcome

    async def _settle(self, wait: Wait, outcome: Outcome) -> None:
        if outcome.answer is not None and (outcome.duration > _QUICK or outcome.interrupted):
            with suppress(Hangup):
                self._settling = await self.supervision.tell(wait, "settle")

    async def _wake(self, wait: Wait) -> None:
        if self._settling is None:
            return
        number, self._settling = self._settling, None
        answer, _ = await self.supervision.answer(wait, number)
        if answer.get("stopped"):
            await self.supervision.tell(wait, "wake")

    def out_of_memory(self) -> bool:
        """Has the kernel killed a process of the session for its memory since we last asked?"""
        look = self.group.killed if self.group is not None else self.family.place.out_of_memory
        return look is not None and look()

    async def end_processes(self, wait: Wait) -> None:
        """Kill everything of this session; its files stay."""
        self._settling = None
        await self.supervision.ask(wait, "end")

    async def branch(self, wait: Wait) -> Seat:
        """A second seat with the same live state. Raises `UnsupportedError` with the reason why not."""
        if self.family.place.no_fork:
            raise UnsupportedError("this session cannot be forked", self.family.place.no_fork)
        await self._wake(wait)
        ours, theirs = pair()
        twin = Seat(self.family, Supervision(Line(ours, limit=1 << 30)))
        try:
            with theirs, _Ends() as ends:
                await self._split(wait, ends.theirs)
                twin.desk = ends.desk(twin)
                hello = await twin._greet(wait)
                answer, _ = await self.supervision.ask(wait, "adopt", b"", (theirs.fileno(),), pid=hello.get("pid"))
            if "refused" in answer:
                raise UnsupportedError("this session cannot be forked", f"its work folder: {answer['refused']}")
            await twin.supervision.line.first(wait, _START)
            await twin._settle_in(wait)
        except BaseException:
            twin.family.members += 1
            await twin.close(wait)
            raise
        self.family.members += 1
        return twin

    async def _split(self, wait: Wait, descriptors: tuple[int, ...]) -> None:
        desk = self._desk()
        await desk.control.send(wait, {"op": "branch", "id": "branch"}, b"", descriptors)
        answer = await _reply(wait, desk.control, "result")
        if "refused" in answer:
            raise UnsupportedError("this session cannot be forked now", f"it has {answer['refused']}")

    async def _settle_in(self, wait: Wait) -> None:
        desk = self._desk()
        await desk.control.send(wait, {"op": "adopted"})
        await _reply(wait, desk.control, "ready")

    async def files(self, wait: Wait, op: str, blob: bytes = b"", **fields: Any) -> tuple[Message, bytes]:
        """Read, write or list files of the work folder."""
        await self._wake(wait)
        answer, data = await self.supervision.ask(wait, op, blob, **fields)
        if "refused" in answer:
            raise UsageError(f"cannot {op} {fields.get('path', 'files')!r}: {answer['refused']}")
        return answer, data

    async def close(self, wait: Wait) -> None:
        """Let go. The place ends with the last seat in it."""
        self._drop_desk()
        self.supervision.line.close()
        self.family.members -= 1
        if not self.family.members:
            await self.family.boundary.end(wait, self.family.place)
        if self.group is not None:
            self.group.remove()
            self.group = None

    def _desk(self) -> Desk:
        if self.desk is None:
            raise SandboxError("the session has no process")
        return self.desk

    def _drop_desk(self) -> None:
        if self.desk is not None:
            self.desk.control.close()
            os.close(self.desk.out)
            os.close(self.desk.err)
            self.desk = None


class _Ends:
    """The two ends of a worker's channel and outputs; those that nobody has taken are closed."""

    def __enter__(self) -> _Ends:
        ours, self._theirs = pair()
        out, out_theirs = pipe()
        err, err_theirs = pipe()
        self._parts = (ours, out, err)
        self._outputs = (out_theirs, err_theirs)
        self.theirs = (self._theirs.fileno(), out_theirs, err_theirs)
        self._taken = False
        return self

    def desk(self, seat: Seat) -> Desk:
        self._taken = True
        ours, out, err = self._parts
        line = Line(ours, limit=_FRAME_SLACK + 16 * seat.limits.return_bytes)
        return Desk(line, out, err, seat.supervision, seat.family.place.watch)

    def __exit__(self, *_: object) -> None:
        self._theirs.close()
        for descriptor in self._outputs:
            os.close(descriptor)
        if not self._taken:
            ours, out, err = self._parts
            ours.close()
            os.close(out)
            os.close(err)


async def _reply(wait: Wait, line: Line, op: str) -> Message:
    """The next message of a kind."""
    while True:
        if not list(await wait.readable([line.descriptor], _START)):
            raise SandboxError(f"the session's process has not answered for {_START:g} s")
        try:
            for message, _ in line.pull():
                if message.get("op") == op:
                    return message
        except (Hangup, BadFrame):
            raise SandboxError("the session's process has ended") from None

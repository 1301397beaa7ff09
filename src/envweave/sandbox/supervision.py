"""The line to a session's supervisor: what is asked of it, and what it says unasked."""

from __future__ import annotations

import itertools
import time
from typing import Any

from envweave.errors import SandboxError
from envweave.sandbox.guest.frames import Frame, Hangup, Message
from envweave.sandbox.line import Line
from envweave.sandbox.waiting import Wait, whole

_PATIENCE = 60.0


class Supervision:
    """One session's. Only `tell` may be called while somebody else waits."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.descriptor = line.descriptor
        self.death: int | None = None
        """How the worker ended, if it did."""
        self.interrupts = False
        """It has been told to interrupt the worker, and not yet to do anything that is sure to come after that."""
        self._numbers = itertools.count(1)
        self._awaited: set[int] = set()
        self._answers: dict[int, Frame] = {}
        self._measures: set[int] = set()
        self._measured: Message | None = None

    async def ask(
        self, wait: Wait, op: str, blob: bytes = b"", descriptors: tuple[int, ...] = (), **fields: Any
    ) -> Frame:
        """Ask and wait for the answer, which may be that it was `refused`. A cancellation is heard after the answer."""
        return await whole(wait, self._ask(wait, op, blob, descriptors, **fields))

    async def _ask(self, wait: Wait, op: str, blob: bytes, descriptors: tuple[int, ...], **fields: Any) -> Frame:
        return await self.answer(wait, await self.begin(wait, op, blob, descriptors, **fields))

    async def begin(
        self, wait: Wait, op: str, blob: bytes = b"", descriptors: tuple[int, ...] = (), **fields: Any
    ) -> int:
        """Ask, and fetch the answer later. Questions are answered in their order."""
        number = next(self._numbers)
        self._awaited.add(number)
        await self.line.send(wait, {"op": op, "number": number, **fields}, blob, descriptors)
        return number

    async def tell(self, wait: Wait, op: str, **fields: Any) -> None:
        """Ask, and let the answer be; a measure is kept until it is `measured`."""
        number = next(self._numbers)
        if op == "measure":
            self._measures.add(number)
        self.interrupts = self.interrupts or op == "interrupt"
        await self.line.send(wait, {"op": op, "number": number, **fields})

    async def answer(self, wait: Wait, number: int) -> Frame:
        until = time.monotonic() + _PATIENCE
        while number not in self._answers:
            if not list(await wait.readable([self.descriptor], until - time.monotonic())):
                raise SandboxError(f"the supervisor of the session has not answered for {_PATIENCE:g} s")
            self.pull()
        return self._answers.pop(number)

    def pull(self) -> None:
        """Take in what has been said. Raises `Hangup` if the supervisor is gone."""
        for message, blob in self.line.pull():
            if message["op"] == "death":
                self.death = int(message["exit_code"])
            elif message["number"] in self._measures:
                self._measures.discard(message["number"])
                self._measured = message
            elif message["number"] in self._awaited:
                self._awaited.discard(message["number"])
                self._answers[message["number"]] = message, blob

    def forget_measures(self) -> None:
        """Those that are still to come are of what has been."""
        self._measures.clear()
        self._measured = None

    def measured(self) -> Message | None:
        """The last measure that was taken, once."""
        found, self._measured = self._measured, None
        return found

    async def await_death(self, wait: Wait, timeout: float) -> int | None:
        """How the worker ended; None if it has not."""
        until = time.monotonic() + timeout
        while self.death is None and (left := until - time.monotonic()) > 0:
            await wait.readable([self.descriptor], left)
            try:
                self.pull()
            except Hangup:
                return None
        return self.death

"""Two contenders take turns; what counts is the ratio within each round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from envweave.bench.figure import Figure
from envweave.bench.wire.links import TIMEOUT, Link
from envweave.bench.wire.servers import Server

SLICE = 0.4
"""Seconds of one turn."""
WARM = 0.05
"""Seconds before a turn counts."""


@dataclass(frozen=True)
class Slice:
    """What one contender did in one turn."""

    steps: int
    seconds: float
    server_cpu_seconds: float
    client_cpu_seconds: float = 0.0
    """0 if the client is this process."""

    @property
    def rate(self) -> float:
        return self.steps / self.seconds


Contender = Callable[[float], Awaitable[Slice]]
"""Steps for so many seconds and is at rest afterwards."""


@dataclass(frozen=True)
class Duel:
    """The turns of both, round by round."""

    ours: list[Slice]
    theirs: list[Slice]

    def figure(self, what: str, *, at_least: float | None = None) -> Figure:
        """How many times as fast the first was, in the median round."""
        ratios = [ours.rate / theirs.rate for ours, theirs in zip(self.ours, self.theirs, strict=True)]
        best = max(s.rate for s in self.ours) / max(s.rate for s in self.theirs)
        rates = [median(s.rate for s in slices) for slices in (self.ours, self.theirs)]
        server, client = self._costs("server_cpu_seconds"), self._costs("client_cpu_seconds")
        note = f"{rates[0]:.0f} / {rates[1]:.0f} a second, server CPU {server[0]:.0f} / {server[1]:.0f} µs"
        if all(client):
            note += f", client {client[0]:.0f} / {client[1]:.0f} µs"
        measured: dict[str, Any] = {
            "best": best,
            "ratios": ratios,
            "rates": rates,
            "server_cpu_microseconds": server,
            "client_cpu_microseconds": client,
            "ours": [asdict(one) for one in self.ours],
            "theirs": [asdict(one) for one in self.theirs],
        }
        return Figure(what=what, value=median(ratios), at_least=at_least, note=note, measured=measured)

    def _costs(self, of: str) -> list[float]:
        """Microseconds of CPU for each step, over all turns: the kernel counts a server's in steps of 10 ms."""
        both = (self.ours, self.theirs)
        return [sum(getattr(s, of) for s in slices) / sum(s.steps for s in slices) * 1e6 for slices in both]


async def duel(ours: Contender, theirs: Contender, *, rounds: int) -> Duel:
    """Each goes first in every other round; one round before does not count."""
    await ours(SLICE)
    await theirs(SLICE)
    found = Duel([], [])
    for number in range(rounds):
        turns = [(ours, found.ours), (theirs, found.theirs)]
        for contender, slices in turns if number % 2 else reversed(turns):
            slices.append(await contender(SLICE))
    return found


class Stepper:
    """Sends a message again as soon as it is answered, for as long as it runs."""

    def __init__(self, link: Link, message: bytes, expected: bytes) -> None:
        self.link = link
        self.count = 0
        self._message = message
        self._expected = expected
        """What every answer contains."""
        self._running = False
        self._rest: asyncio.Future[None]
        link.receive = self._received

    def start(self) -> None:
        self._running = True
        self._rest = asyncio.get_running_loop().create_future()
        self.link.failed = self._failed
        self.link.transport.write(self._message)

    def halt(self) -> None:
        """Send no more."""
        self._running = False

    async def rest(self) -> None:
        """Wait for the last answer. Raises what went wrong."""
        await asyncio.wait_for(self._rest, TIMEOUT)

    def _received(self, answer: bytes) -> None:
        self.count += 1
        if self._expected not in answer:
            self._failed(ValueError(f"not a step: {answer[:500]!r}"))
        elif self._running:
            self.link.transport.write(self._message)
        else:
            self._rest.set_result(None)

    def _failed(self, error: Exception) -> None:
        self._running = False
        if not self._rest.done():
            self._rest.set_exception(error)


class Crowd:
    """Steppers side by side against one server: a contender. Whoever made it closes it."""

    def __init__(self, server: Server, steppers: Sequence[Stepper]) -> None:
        self._server = server
        self._steppers = steppers

    async def __call__(self, seconds: float) -> Slice:
        for stepper in self._steppers:
            stepper.start()
        await asyncio.sleep(WARM)
        count, cpu, began = self._count(), self._server.cpu_seconds(), time.perf_counter()
        await asyncio.sleep(seconds)
        counted = self._count() - count
        slice = Slice(counted, time.perf_counter() - began, self._server.cpu_seconds() - cpu)
        for stepper in self._steppers:
            stepper.halt()
        for stepper in self._steppers:
            await stepper.rest()
        return slice

    def _count(self) -> int:
        return sum(stepper.count for stepper in self._steppers)

    def close(self) -> None:
        for stepper in self._steppers:
            stepper.link.abort()

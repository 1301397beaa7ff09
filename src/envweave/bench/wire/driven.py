"""The inside of a client process: it does what its standard input says.

A line in, a line of JSON out: `open URL COUNT`, `run SECONDS` (gives steps, seconds and CPU seconds), `close`.
It imports next to nothing: OpenEnv's client is driven by it too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

MESSAGE = "hello world"

Step = Callable[[], Awaitable[None]]
Session = tuple[Step, Callable[[], Awaitable[Any]]]
"""A step, and how to end it all."""


class Obedient(Protocol):
    """What commands can be given to."""

    async def open(self, url: str, count: int) -> None:
        """Open so many sessions and reset them."""

    async def run(self, seconds: float) -> tuple[int, float]:
        """Step all of them for about so long; gives the steps and the seconds it took."""

    async def close(self) -> None:
        """Close them."""


class Sessions:
    """Sessions that are stepped side by side, each as fast as its answers come."""

    def __init__(self, open_session: Callable[[str], Awaitable[Session]]) -> None:
        self._open_session = open_session
        self._sessions: list[Session] = []

    async def open(self, url: str, count: int) -> None:
        self._sessions = [await self._open_session(url) for _ in range(count)]

    async def run(self, seconds: float) -> tuple[int, float]:
        began = time.perf_counter()
        steps = await asyncio.gather(*(_repeated(step, began + seconds) for step, _ in self._sessions))
        return sum(steps), time.perf_counter() - began

    async def close(self) -> None:
        for _, close in self._sessions:
            await close()


async def _repeated(step: Step, end: float) -> int:
    steps = 0
    while time.perf_counter() < end:
        await step()
        steps += 1
    return steps


async def drive(open_session: Callable[[str], Awaitable[Session]]) -> None:
    """Obey with sessions that are opened one by one."""
    await obey(Sessions(open_session))


async def obey(driven: Obedient) -> None:
    """Read commands until the input ends."""
    loop = asyncio.get_running_loop()
    print(json.dumps("ready"), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answer: tuple[int, float, float] | None = None
        match line.split():
            case ["open", url, count]:
                await driven.open(url, int(count))
            case ["run", seconds]:
                cpu = time.process_time()
                answer = (*await driven.run(float(seconds)), time.process_time() - cpu)
            case _:
                await driven.close()
        print(json.dumps(answer), flush=True)

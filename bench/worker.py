"""The inside of a process that runs steps on command.

It reads one command per line and answers each with one line of JSON: `open ARGUMENT…`, `run SECONDS` (steps, seconds
and CPU seconds), `close`. It imports next to nothing, because the process with OpenEnv's client uses it too.
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
OpenedSession = tuple[Step, Callable[[], Awaitable[Any]]]
"""A step, and what closes the session."""


class Workload(Protocol):
    """What a worker process runs."""

    async def open(self, *arguments: str) -> None:
        """Prepare everything up to the first step."""

    async def run(self, seconds: float) -> tuple[int, float]:
        """Step for about so long. Returns the number of steps and the seconds they took."""

    async def close(self) -> None:
        """Close what `open` opened."""


class SessionsWorkload:
    """Sessions that are stepped concurrently, each as fast as its answers come. Opens a URL and a count."""

    def __init__(self, open_session: Callable[[str], Awaitable[OpenedSession]]) -> None:
        self._open_session = open_session
        self._sessions: list[OpenedSession] = []

    async def open(self, *arguments: str) -> None:
        url, count = arguments
        self._sessions = [await self._open_session(url) for _ in range(int(count))]

    async def run(self, seconds: float) -> tuple[int, float]:
        began = time.perf_counter()
        steps = await asyncio.gather(*(_repeat(step, began + seconds) for step, _ in self._sessions))
        return sum(steps), time.perf_counter() - began

    async def close(self) -> None:
        for _, close in self._sessions:
            await close()


async def _repeat(step: Step, end: float) -> int:
    await step()  # at least one, also if the machine stalls
    steps = 1
    while time.perf_counter() < end:
        await step()
        steps += 1
    return steps


async def serve(workload: Workload) -> None:
    """Read and run commands until the input ends."""
    loop = asyncio.get_running_loop()
    print(json.dumps("ready"), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answer: tuple[int, float, float] | None = None
        match line.split():
            case ["open", *arguments]:
                await workload.open(*arguments)
            case ["run", seconds]:
                cpu = time.process_time()
                answer = (*await workload.run(float(seconds)), time.process_time() - cpu)
            case _:
                await workload.close()
        print(json.dumps(answer), flush=True)

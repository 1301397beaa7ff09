"""Requests that are repeated on raw connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from bench.comparison import Slice
from bench.wire.connections import TIMEOUT, RawConnection
from bench.wire.servers import ServerProcess

WARM_UP = 0.03
"""Seconds before a slice counts."""


async def count_slice(server: ServerProcess, seconds: float, count: Callable[[], int]) -> Slice:
    """What `count` grows by in so many seconds after the warm-up. It lasts longer if no step ends in this time."""
    await asyncio.sleep(WARM_UP)
    before, cpu, began = count(), server.cpu_seconds(), time.perf_counter()
    end = began + TIMEOUT
    await asyncio.sleep(seconds)
    while count() == before and time.perf_counter() < end:
        await asyncio.sleep(0.01)
    return Slice(count() - before, time.perf_counter() - began, server.cpu_seconds() - cpu)


class RequestLoop:
    """Sends a request again as soon as it is answered, until it is told to stop."""

    def __init__(self, connection: RawConnection, request: bytes, expected: bytes) -> None:
        """Every answer must contain `expected`."""
        self.connection = connection
        self.count = 0
        self._request = request
        self._expected = expected
        self._running = False
        self._stopped: asyncio.Future[None]
        connection.receive = self._received

    def start(self) -> None:
        self._running = True
        self._stopped = asyncio.get_running_loop().create_future()
        self.connection.failed = self._failed
        self.connection.transport.write(self._request)

    def stop(self) -> None:
        """Send no further request."""
        self._running = False

    async def wait_stopped(self) -> None:
        """Wait for the last answer. Raises what went wrong."""
        await asyncio.wait_for(self._stopped, TIMEOUT)

    def _received(self, answer: bytes) -> None:
        self.count += 1
        if self._expected not in answer:
            self._failed(ValueError(f"not a step: {answer[:500]!r}"))
        elif self._running:
            self.connection.transport.write(self._request)
        else:
            self._stopped.set_result(None)

    def _failed(self, error: Exception) -> None:
        self._running = False
        if not self._stopped.done():
            self._stopped.set_exception(error)


class ConcurrentRequests:
    """Request loops on one server at the same time: a runner. The caller closes it."""

    def __init__(self, server: ServerProcess, loops: Sequence[RequestLoop]) -> None:
        self._server = server
        self._loops = loops

    async def __call__(self, seconds: float) -> Slice:
        for loop in self._loops:
            loop.start()
        slice = await count_slice(self._server, seconds, self._count)
        for loop in self._loops:
            loop.stop()
        for loop in self._loops:
            await loop.wait_stopped()
        return slice

    def _count(self) -> int:
        return sum(loop.count for loop in self._loops)

    def close(self) -> None:
        for loop in self._loops:
            loop.connection.abort()

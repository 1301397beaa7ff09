"""How many episodes run at the same time, and which one is next."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count

from envweave.rollouts.summary import Summary


class Slots:
    """A semaphore that serves the oldest group first. The summary has the number of those that are taken."""

    def __init__(self, number: int, summary: Summary) -> None:
        self._summary = summary
        self._number = number
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()

    async def acquire(self, group: int) -> None:
        """Wait for a slot."""
        if self._summary.running < self._number:
            self._summary.running += 1
            return
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (group, next(self._order), given))
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a slot back, which goes to the first that waits."""
        while self._waiting:
            given = heappop(self._waiting)[2]
            if not given.done():
                given.set_result(None)
                return
        self._summary.running -= 1

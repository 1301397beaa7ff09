"""Our own vector of remote environments, driven from outside: `python -m envweave.bench.wire.own_vector`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from envweave.bench.wire.driven import MESSAGE, obey
from envweave.client.env_client import connect_vector


class Driven:
    """One vector; a step of it counts as many as it has environments."""

    def __init__(self) -> None:
        self._vector: Any = None

    async def open(self, url: str, count: int) -> None:
        self._vector = connect_vector(url, count)
        self._vector.reset()

    async def run(self, seconds: float) -> tuple[int, float]:
        actions = [{"message": MESSAGE}] * self._vector.num_envs
        steps, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            steps += len(self._vector.step(actions).results)
        return steps, passed

    async def close(self) -> None:
        self._vector.close()


if __name__ == "__main__":
    asyncio.run(obey(Driven()))

"""A worker process with our own vector of remote environments: `python -m bench.wire.own_vector`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.worker import MESSAGE, serve
from envweave.client.env_client import connect_vector


class VectorWorkload:
    """One vector. A step of it counts as one step of each environment. Opens a URL and a count."""

    def __init__(self) -> None:
        self._vector: Any = None

    async def open(self, *arguments: str) -> None:
        url, count = arguments
        self._vector = connect_vector(url, int(count))
        self._vector.reset()

    async def run(self, seconds: float) -> tuple[int, float]:
        actions = [{"message": MESSAGE}] * self._vector.num_envs
        steps, passed, began = 0, 0.0, time.perf_counter()
        while passed < seconds:
            results = self._vector.step(actions).results
            assert results[-1].observation.echoed_message == MESSAGE
            steps += len(results)
            passed = time.perf_counter() - began
        return steps, passed

    async def close(self) -> None:
        self._vector.close()


if __name__ == "__main__":
    asyncio.run(serve(VectorWorkload()))

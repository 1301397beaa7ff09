"""Environments that are slow now and then, in a vector of threads."""

from __future__ import annotations

import random
import time
from typing import Any

from envweave.registry.make import register
from envweave.registry.vectors import make_vector

SHORT, LONG, LONG_SHARE = 0.01, 0.2, 0.05
"""Seconds of most steps, of the others, and the share of those."""


class SometimesSlow:
    """Sleeps 10 ms, and in one step of twenty 200 ms. The reward is the time that it slept."""

    def __init__(self) -> None:
        self._random = random.Random()

    def reset(self, *, seed: int | None = None) -> int:
        self._random.seed(seed)
        return 0

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        seconds = LONG if self._random.random() < LONG_SHARE else SHORT
        time.sleep(seconds)
        return 0, seconds, False, False, {}


def busy_shares(windows: int, *, num_envs: int = 64, window: float = 0.5) -> list[float]:
    """The share of time that the environments were busy with a step while `recv(min_ready=1)` drove them.

    One value for each window of a continuous run. 1 is the ideal: no environment ever waits for an action.
    """
    register("sometimes-slow", SometimesSlow)
    shares: list[float] = []
    with make_vector("sometimes-slow", num_envs, backend="thread") as vector:
        vector.reset(seed=0)
        vector.send([0] * num_envs)
        slept, began = 0.0, time.perf_counter()
        while len(shares) <= windows:
            batch = vector.recv(min_ready=1)
            slept += sum(row.reward for row in batch.results)
            vector.send([0] * len(batch), batch.ids)
            if (passed := time.perf_counter() - began) >= window:
                shares.append(slept / passed / num_envs)
                slept, began = 0.0, time.perf_counter()
    return shares[1:]  # the first window has no step that began before it

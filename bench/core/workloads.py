"""What is measured in one process: `python -m bench.core.workloads NAME` runs one as a worker process.

Each workload has a process of its own, because the place of 256 environments in memory alone makes a difference of a
tenth.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

import gymnasium
import numpy as np

from bench.worker import serve
from envweave.core.handle import EnvHandle
from envweave.envs.counter import CounterEnv, Increment
from envweave.plan import adapt
from envweave.registry.make import register
from envweave.registry.vectors import make_vector

NUM_ENVS = 256
CALLS = 1000
"""Calls of a handle between two looks at the clock."""

_ACTIONS = [[random.Random(row).randrange(2) for _ in range(NUM_ENVS)] for row in range(50)]

Sweep = Callable[[], int]
"""Makes some steps and returns how many."""


class Trivial(gymnasium.Env[Any, Any]):
    """Does nothing, so that only the code around it is measured."""

    observation_space = gymnasium.spaces.Discrete(10)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, 1.0, False, False, {}


def counter_alone() -> Sweep:
    env = CounterEnv(done_at=10**12)
    env.reset()
    return _calls(env.step, Increment(1))


def counter_typed() -> Sweep:
    return _calls(_counter().step, Increment(1))


def counter_dict() -> Sweep:
    return _calls(_counter().step, {"delta": 1})


def _counter() -> EnvHandle[Any, Any]:
    env = adapt(CounterEnv(done_at=10**12))
    env.reset()
    return env


def _calls(step: Callable[[Any], Any], action: Any) -> Sweep:
    def sweep() -> int:
        for _ in range(CALLS):
            step(action)
        return CALLS

    return sweep


def _cartpole() -> Any:
    return gymnasium.make("CartPole-v1").unwrapped


def trivial_gymnasium() -> Sweep:
    return _gymnasium_vector(Trivial)


def trivial_envweave() -> Sweep:
    return _envweave_vector(Trivial)


def cartpole_gymnasium() -> Sweep:
    return _gymnasium_vector(_cartpole)


def cartpole_envweave() -> Sweep:
    return _envweave_vector(_cartpole)


def cartpole_loop() -> Sweep:
    """A plain loop that collects what a trainer needs: observations, rewards and ends."""
    envs = [_cartpole() for _ in range(NUM_ENVS)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)

    def step(actions: list[int]) -> Any:
        observations, rewards, terminations, truncations, infos = [], [], [], [], []
        for env, action in zip(envs, actions, strict=True):
            observation, reward, terminated, truncated, info = env.step(action)
            observations.append(observation)
            rewards.append(reward)
            terminations.append(terminated)
            truncations.append(truncated)
            infos.append(info)
            if terminated or truncated:
                env.reset()
        return observations, rewards, terminations, truncations, infos

    return _steps(step, _ACTIONS)


def _gymnasium_vector(factory: Callable[[], Any]) -> Sweep:
    vector = gymnasium.vector.SyncVectorEnv([factory] * NUM_ENVS)
    vector.reset(seed=0)
    return _steps(vector.step, [np.array(actions) for actions in _ACTIONS])


def _envweave_vector(factory: Callable[[], Any]) -> Sweep:
    register("bench", factory)
    vector = make_vector("bench", NUM_ENVS, autoreset=True)
    vector.reset(seed=0)
    return _steps(lambda actions: tuple(vector.step(actions)), _ACTIONS)


def _steps(step: Callable[[Any], Any], rows: list[Any]) -> Sweep:
    following = cycle(rows)

    def sweep() -> int:
        step(next(following))
        return NUM_ENVS

    return sweep


WORKLOADS: dict[str, Callable[[], Sweep]] = {
    make.__name__: make
    for make in (
        counter_alone,
        counter_typed,
        counter_dict,
        trivial_gymnasium,
        trivial_envweave,
        cartpole_loop,
        cartpole_gymnasium,
        cartpole_envweave,
    )
}


class SweepWorkload:
    """Repeats one of the workloads."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep

    async def open(self, *arguments: str) -> None:
        """There is nothing to open."""

    async def run(self, seconds: float) -> tuple[int, float]:
        steps, passed, began = 0, 0.0, time.perf_counter()
        while passed < seconds:
            steps += self._sweep()
            passed = time.perf_counter() - began
        return steps, passed

    async def close(self) -> None:
        """There is nothing to close."""


if __name__ == "__main__":
    asyncio.run(serve(SweepWorkload(WORKLOADS[sys.argv[1]]())))

"""What is measured. Each contender runs in a process of its own and gives microseconds per step.

A process of its own because the place of 256 environments in memory alone makes a tenth of a difference.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from envweave.build import adapt
from envweave.core.local import LocalEnv
from envweave.envs.counter import CounterEnv, Increment
from envweave.registry.make import register
from envweave.registry.vectors import make_vector

NUM_ENVS = 256
_ACTIONS = [[random.Random(row).randrange(2) for _ in range(NUM_ENVS)] for row in range(50)]


def counter_alone() -> float:
    env = CounterEnv(done_at=10**12)
    env.reset()
    return _call(env.step, Increment(1))


def counter_typed() -> float:
    return _call(_counter().step, Increment(1))


def counter_dict() -> float:
    return _call(_counter().step, {"delta": 1})


def _counter() -> LocalEnv:
    env = adapt(CounterEnv(done_at=10**12))
    env.reset()
    return env  # type: ignore[return-value]


class Trivial(gymnasium.Env[Any, Any]):
    """Does nothing, so that only the machinery is measured."""

    observation_space = gymnasium.spaces.Discrete(10)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, 1.0, False, False, {}


def _cartpole() -> Any:
    return gymnasium.make("CartPole-v1").unwrapped


def trivial_gymnasium_sync() -> float:
    return _gymnasium_sync(Trivial)


def trivial_envweave() -> float:
    return _envweave(Trivial)


def cartpole_gymnasium_sync() -> float:
    return _gymnasium_sync(_cartpole)


def cartpole_envweave() -> float:
    return _envweave(_cartpole)


def cartpole_loop() -> float:
    """A plain loop that hands over what a trainer needs: observations, rewards and ends."""
    envs = [_cartpole() for _ in range(NUM_ENVS)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)

    def sweep(actions: list[int]) -> Any:
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

    return _sweep(sweep)


def _gymnasium_sync(factory: Callable[[], Any]) -> float:
    vector = gymnasium.vector.SyncVectorEnv([factory] * NUM_ENVS)
    vector.reset(seed=0)
    return _sweep(vector.step, [np.array(actions) for actions in _ACTIONS])


def _envweave(factory: Callable[[], Any]) -> float:
    register("bench", factory)
    with make_vector("bench", NUM_ENVS, autoreset=True) as vector:
        vector.reset(seed=0)

        def sweep(actions: list[int]) -> Any:
            return tuple(vector.step(actions))

        return _sweep(sweep)


def _call(step: Callable[[Any], Any], action: Any, count: int = 20_000, rounds: int = 15) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(count):
            step(action)
        best = min(best, time.process_time() - began)
    return best / count * 1e6


def _sweep(step: Callable[[Any], Any], rows: list[Any] = _ACTIONS, rounds: int = 20) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for actions in rows:
            step(actions)
        best = min(best, time.process_time() - began)
    return best / len(rows) / NUM_ENVS * 1e6


class Straggler:
    """Sleeps 10 ms, and in one step of twenty 200 ms."""

    def __init__(self) -> None:
        self._random = random.Random()

    def reset(self, *, seed: int | None = None) -> int:
        self._random.seed(seed)
        return 0

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        seconds = 0.2 if self._random.random() < 0.05 else 0.01
        time.sleep(seconds)
        return 0, seconds, False, False, {}


def stragglers_ready_first(num_envs: int = 64, seconds: float = 6.0) -> float:
    """The share of the ideal steps per second that `recv(min_ready=1)` delivers.

    The ideal is what the environments' own sleep allows if each of them is never kept waiting.
    """
    register("straggler", Straggler)
    with make_vector("straggler", num_envs, backend="thread") as vector:
        vector.reset(seed=0)
        vector.send([0] * num_envs)
        delivered, asked = 0, 0.0
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            batch = vector.recv(min_ready=1)
            asked += sum(row.reward for row in batch.results)
            delivered += len(batch)
            vector.send([0] * len(batch), batch.ids)
        rate = delivered / (time.perf_counter() - began)
    return rate / (num_envs * delivered / asked)


CONTENDERS: dict[str, Callable[[], float]] = {
    measure.__name__: measure
    for measure in (
        counter_alone,
        counter_typed,
        counter_dict,
        trivial_gymnasium_sync,
        trivial_envweave,
        cartpole_loop,
        cartpole_gymnasium_sync,
        cartpole_envweave,
        stragglers_ready_first,
    )
}

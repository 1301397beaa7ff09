"""Steps per second of a server in a container, against the same server as a plain process on this machine.

Measured with our own clients, over the default Unix socket into the container and over the port that Docker publishes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench.comparison import Runner, Slice, compare
from bench.figure import Figure
from bench.worker import MESSAGE
from envweave.client.env_client import EnvClient, connect_vector
from envweave.providers.base import Provider
from envweave.providers.docker import LocalDockerProvider
from envweave.providers.subprocess import SubprocessProvider

VECTOR_SIZE = 64
WANTED = 0.85
"""Of the steps per second outside."""

Client = Callable[[ExitStack, Provider], Callable[[], int]]
"""Connects to a server. Returns a function that makes steps and returns how many."""


def steps(image: str, rounds: int) -> list[Figure]:
    """One session, and many sessions on one connection."""
    many = f"{VECTOR_SIZE} sessions on one connection"
    variants: tuple[tuple[str, Client, bool, float | None], ...] = (
        ("1 session: in a container / outside", _single, True, WANTED),
        (f"{many}: in a container / outside", _vector, True, WANTED),
        ("1 session: through Docker's proxy / outside", _single, False, None),
        (f"{many}: through Docker's proxy / outside", _vector, False, None),
    )
    figures = []
    for what, client, direct, wanted in variants:
        with ExitStack() as stack:
            inside = _runner(client(stack, LocalDockerProvider(image, direct=direct)))
            outside = _runner(client(stack, SubprocessProvider("echo")))
            found = asyncio.run(compare(inside, outside, rounds=rounds))
        figures.append(found.figure(what, at_least=wanted))
    return figures


def _single(stack: ExitStack, provider: Provider) -> Callable[[], int]:
    env: EnvClient[Any, Any, Any] = stack.enter_context(EnvClient(provider))
    env.reset()

    def step() -> int:
        result = env.step({"message": MESSAGE})
        assert result.observation.echoed_message == MESSAGE
        return 1

    return step


def _vector(stack: ExitStack, provider: Provider) -> Callable[[], int]:
    vector = stack.enter_context(connect_vector(provider, VECTOR_SIZE))
    vector.reset()
    actions = [{"message": MESSAGE}] * VECTOR_SIZE
    return lambda: len(vector.step(actions).results)


def _runner(step: Callable[[], int]) -> Runner:
    async def run(seconds: float) -> Slice:
        count, passed, began = 0, 0.0, time.perf_counter()
        while passed < seconds:
            count += step()
            passed = time.perf_counter() - began
        return Slice(count, passed)

    return run

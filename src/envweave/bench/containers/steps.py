"""Steps per second of a server in a container, against the same server as a plain process of this machine.

With the clients that users have, and the way they take: a Unix socket into the container; and, to see what that is
worth, the port that Docker publishes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import uvloop

from envweave.bench.figure import Figure
from envweave.bench.wire.driven import MESSAGE
from envweave.bench.wire.duel import Contender, Slice, duel
from envweave.client.env_client import EnvClient, connect_vector
from envweave.providers.base import Provider
from envweave.providers.docker import LocalDockerProvider
from envweave.providers.subprocess import SubprocessProvider

VECTOR_SIZE = 64
WANTED = 0.85
"""Of the steps a second outside."""
TURNS = 4
"""In a round: one is less than half a second, and what is looked for is small."""

Client = Callable[[ExitStack, Provider], Callable[[], int]]
"""From a server to a step, or many at once, which says how many."""


def steps(image: str, rounds: int) -> list[Figure]:
    """One session, and many on one connection."""
    many = f"{VECTOR_SIZE} sessions on one connection"
    ways: tuple[tuple[str, Client, bool, float | None], ...] = (
        ("1 session: in a container / outside", _single, True, WANTED),
        (f"{many}: in a container / outside", _vector, True, WANTED),
        ("1 session: through Docker's proxy / outside", _single, False, None),
        (f"{many}: through Docker's proxy / outside", _vector, False, None),
    )
    figures = []
    for what, client, direct, wanted in ways:
        with ExitStack() as stack:
            inside = _stepping(client(stack, LocalDockerProvider(image, direct=direct)))
            outside = _stepping(client(stack, SubprocessProvider("echo")))
            figure = uvloop.run(duel(inside, outside, rounds=rounds * TURNS)).figure(what, at_least=wanted)
        rates = "{:.0f} / {:.0f} a second".format(*figure.measured["rates"])
        figures.append(replace(figure, note=f"{rates}; {figure.measured['best']:.2f} by the quietest"))
    return figures


def _single(stack: ExitStack, provider: Provider) -> Callable[[], int]:
    env: EnvClient[Any, Any, Any] = stack.enter_context(EnvClient(provider))
    env.reset()

    def step() -> int:
        result = env.step({"message": MESSAGE})
        assert result.observation["echoed_message"] == MESSAGE
        return 1

    return step


def _vector(stack: ExitStack, provider: Provider) -> Callable[[], int]:
    vector = stack.enter_context(connect_vector(provider, VECTOR_SIZE))
    vector.reset()
    actions = [{"message": MESSAGE}] * VECTOR_SIZE
    return lambda: len(vector.step(actions).results)


def _stepping(step: Callable[[], int]) -> Contender:
    async def run(seconds: float) -> Slice:
        count, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            count += step()
        return Slice(count, passed, 0.0)

    return run

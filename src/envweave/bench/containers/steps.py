"""Steps per second of a server in a container, against the same server as a plain process of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import uvloop

from envweave.bench.figure import Figure
from envweave.bench.wire.batch import Woven
from envweave.bench.wire.clients import OURS, VECTOR, Client
from envweave.bench.wire.duel import Contender, duel
from envweave.bench.wire.servers import Served, cpu_seconds
from envweave.bench.wire.steps import sessions
from envweave.providers.base import running
from envweave.providers.daemon import connected
from envweave.providers.docker import LocalDockerProvider
from envweave.providers.subprocess import SubprocessProvider

VECTOR_SIZE = 64
WANTED = 0.85
"""Of the steps a second outside."""
TURNS = 4
"""In a round: one is less than half a second, and what is looked for is small."""


@dataclass(frozen=True)
class Provided:
    """A server that a provider has started."""

    url: str
    pid: int

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80

    def cpu_seconds(self) -> float:
        """0 where its process is not to be seen from here."""
        try:
            return cpu_seconds(self.pid)
        except OSError:
            return 0.0


Open = Callable[[Served], AbstractAsyncContextManager[Contender]]


def steps(image: str, rounds: int) -> list[Figure]:
    """To the container's own address where there is a sure way to it; and through Docker's proxy."""
    with ExitStack() as stack:

        def in_container(*, direct: bool) -> Provided:
            provider = LocalDockerProvider(image, direct=direct)
            return Provided(stack.enter_context(running(provider)), _pid(provider))

        process = SubprocessProvider("echo")
        outside = Provided(stack.enter_context(running(process)), process.process.pid)
        inside, proxied = in_container(direct=True), in_container(direct=False)
        return uvloop.run(_compare(inside, proxied, outside, rounds * TURNS))


async def _compare(inside: Provided, proxied: Provided, outside: Provided, rounds: int) -> list[Figure]:
    many = f"{VECTOR_SIZE} sessions on one connection"
    ways: tuple[tuple[str, Open, Provided, float | None], ...] = (
        ("raw client, 1 session: in a container / outside", _single, inside, WANTED),
        (f"raw client, {many}: in a container / outside", _batch, inside, WANTED),
        ("own client, 1 session: in a container / outside", _own, inside, WANTED),
        (f"own vector, {many}: in a container / outside", _vector, inside, WANTED),
        ("raw client, 1 session: through Docker's proxy / outside", _single, proxied, None),
        (f"raw client, {many}: through Docker's proxy / outside", _batch, proxied, None),
    )
    figures = []
    for what, open, place, wanted in ways:
        async with open(place) as ours, open(outside) as theirs:
            figure = (await duel(ours, theirs, rounds=rounds)).figure(what, at_least=wanted)
        figures.append(replace(figure, note=f"{figure.note}; {figure.measured['best']:.2f} by the quietest"))
    return figures


@asynccontextmanager
async def _single(server: Served) -> AsyncIterator[Contender]:
    with closing(await sessions(server, 1)) as crowd:
        yield crowd


@asynccontextmanager
async def _batch(server: Served) -> AsyncIterator[Contender]:
    woven = await Woven.open(server, count=VECTOR_SIZE)
    try:
        yield woven.batch
    finally:
        await woven.close()


@asynccontextmanager
async def _own(server: Served) -> AsyncIterator[Contender]:
    async with Client(server, OURS) as client:
        await client.open(1)
        yield client


@asynccontextmanager
async def _vector(server: Served) -> AsyncIterator[Contender]:
    async with Client(server, VECTOR) as client:
        await client.open(VECTOR_SIZE)
        yield client


def _pid(provider: LocalDockerProvider) -> int:
    with connected() as client:
        return int(client.containers.get(provider.name).attrs["State"]["Pid"])

"""All figures of the wire, one after the other."""

from __future__ import annotations

import resource
from collections.abc import Awaitable, Callable

import uvloop
from rich.console import Console
from rich.progress import track

from envweave.bench.figure import Figure
from envweave.bench.wire.batch import batches
from envweave.bench.wire.clients import own_clients
from envweave.bench.wire.crowds import opening, slow_steps, waiting
from envweave.bench.wire.servers import Pair, pair
from envweave.bench.wire.steps import over_http, over_websocket

COMPARED: tuple[Callable[[Pair, int], Awaitable[list[Figure]]], ...] = (
    over_websocket,
    own_clients,
    over_http,
    opening,
    batches,
)
ALONE: tuple[Callable[[], Awaitable[list[Figure]]], ...] = (waiting, slow_steps)
"""With servers of their own."""


def measure(rounds: int) -> list[Figure]:
    """The figures, with their numbers in `measured`. Takes three to four minutes with ten rounds."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return uvloop.run(_measure(rounds))


async def _measure(rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    console = Console(stderr=True)
    with pair() as both:
        for compare in track(COMPARED, "measuring the wire", console=console):
            figures += await compare(both, rounds)
    for alone in track(ALONE, "measuring many sessions", console=console):
        figures += await alone()
    return figures

"""All figures of servers and clients, one after the other."""

from __future__ import annotations

import resource
from collections.abc import Awaitable, Callable

import uvloop
from rich.progress import track

from bench.figure import Figure
from bench.timing import CONSOLE
from bench.wire.batch import batches, remote_vector
from bench.wire.clients import own_clients
from bench.wire.many_sessions import idle_sessions, opening, slow_steps
from bench.wire.servers import EchoServers, echo_servers
from bench.wire.steps import http_steps, websocket_steps

COMPARED: tuple[Callable[[EchoServers, int], Awaitable[list[Figure]]], ...] = (
    websocket_steps,
    own_clients,
    remote_vector,
    batches,
    http_steps,
    opening,
)
SEPARATE: tuple[Callable[[], Awaitable[list[Figure]]], ...] = (idle_sessions, slow_steps)
"""Parts that start servers of their own."""


def measure(rounds: int) -> list[Figure]:
    """The figures, with their numbers in `measured`. Takes about three minutes with twenty rounds."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return uvloop.run(_measure(rounds))


async def _measure(rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    with echo_servers() as servers:
        for compared in track(COMPARED, "measuring servers and clients", console=CONSOLE):
            figures += await compared(servers, rounds)
    for separate in track(SEPARATE, "measuring many sessions", console=CONSOLE):
        figures += await separate()
    return figures

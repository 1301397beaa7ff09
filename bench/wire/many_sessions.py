"""Many sessions: how fast one opens, what each costs while it is idle, and whether all of them are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from statistics import median

from bench.figure import Figure
from bench.wire import slow_envs
from bench.wire.connections import RawWebSocket, open_many
from bench.wire.servers import EchoServers, ServerProcess, echo_servers, envweave_server
from bench.wire.steps import RESET, STEP

CLOSE = RawWebSocket.frame(b'{"type":"close"}')
OPENINGS = 20
"""Sessions that each server opens in a round, one by one and in turn."""


async def opening(servers: EchoServers, rounds: int) -> list[Figure]:
    """From nothing to the first observation: connection, handshake, session, reset."""
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    for _ in range(rounds + 1):
        ours.append([])
        theirs.append([])
        for number in range(OPENINGS):
            turns = [(servers.ours, ours[-1]), (servers.theirs, theirs[-1])]
            for server, seconds in reversed(turns) if number % 2 else turns:
                seconds.append(await _opening_seconds(server))
    medians = [[median(seconds) for seconds in each[1:]] for each in (ours, theirs)]  # the first does not count
    ratios = [their / our for our, their in zip(*medians, strict=True)]
    note = f"{median(medians[0]) * 1000:.2f} / {median(medians[1]) * 1000:.2f} ms"
    measured = {"unit": "s", "ratios": ratios, "ours": ours[1:], "theirs": theirs[1:]}
    what = "session create + reset, times as fast as OpenEnv"
    return [Figure.of(ratios, what=what, at_least=2, note=note, measured=measured)]


async def _opening_seconds(server: ServerProcess) -> float:
    began = time.perf_counter()
    connection = await RawWebSocket().open(server.port)
    await connection.request(RESET)
    seconds = time.perf_counter() - began
    connection.transport.write(CLOSE)
    await connection.closed()
    return seconds


async def idle_sessions(count: int = 1000) -> list[Figure]:
    """Memory and threads of sessions after a reset and a step. New servers, so that their memory is fresh."""
    with echo_servers() as fresh:
        ours, theirs = [await _idle_cost(server, count) for server in (fresh.ours, fresh.theirs)]
    both = {"ours": ours, "theirs": theirs}
    return [
        Figure(
            what=f"{count} open sessions, memory of each",
            value=ours["kib_each"],
            unit="KiB",
            at_most=40,
            note=f"OpenEnv {theirs['kib_each']:.1f} KiB",
            measured=both,
        ),
        Figure(
            what=f"{count} open sessions, threads",
            value=ours["threads"],
            unit="",
            at_most=count // 10,
            note=f"OpenEnv {theirs['threads']:.0f}",
            measured=both,
        ),
    ]


async def _idle_cost(server: ServerProcess, count: int) -> dict[str, float]:
    first = await _open(server, 10, RESET, STEP)  # what the server loads with its first sessions does not count
    await asyncio.sleep(0.2)
    before = server.memory_bytes()
    more = await _open(server, count - len(first), RESET, STEP)
    await asyncio.sleep(0.5)
    after, threads = server.memory_bytes(), server.threads()
    for connection in first + more:
        connection.abort()
    return {"kib_each": (after - before) / len(more) / 1024, "rss_mib": after / 2**20, "threads": threads}


async def _open(server: ServerProcess, count: int, *messages: bytes) -> list[RawWebSocket]:
    """Sessions that have answered these messages."""

    async def one() -> RawWebSocket:
        connection = await RawWebSocket().open(server.port)
        for message in messages:
            await connection.request(message)
        return connection

    return await open_many(count, one)


async def slow_steps(count: int = 2000) -> list[Figure]:
    """All sessions make a step of a second at the same time, on a server with its default settings."""
    figures = []
    for env, verb in ((slow_envs.SlowEnv, "blocks"), (slow_envs.SlowAsyncEnv, "awaits")):
        with envweave_server(f"pkg://{env.__module__}:{env.__name__}") as server:
            connections = await _open(server, count, RESET)
            began = time.perf_counter()
            answers = await asyncio.gather(*(each.request(STEP) for each in connections), return_exceptions=True)
            seconds, threads = time.perf_counter() - began, server.threads()
            for connection in connections:
                connection.abort()
        served = _served(answers)
        figures.append(
            Figure(
                what=f"{count} sessions, a step that {verb} for 1 s: served",
                value=served,
                unit="",
                at_least=count,
                note=f"all answers after {seconds:.2f} s, {threads} threads",
                measured={"seconds": seconds, "threads": threads, "served": served},
            )
        )
    return figures


def _served(answers: Sequence[bytes | BaseException]) -> int:
    return sum(isinstance(answer, bytes) and b'"slept":true' in answer for answer in answers)

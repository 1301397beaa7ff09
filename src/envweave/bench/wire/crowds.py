"""Many sessions at once: how soon one is there, what each costs while it waits, and whether all are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from statistics import median

from envweave.bench.figure import Figure
from envweave.bench.wire import sleepers
from envweave.bench.wire.links import WebSocket, opened
from envweave.bench.wire.servers import Pair, Server, envweave_server, pair
from envweave.bench.wire.steps import RESET, STEP

CLOSE = WebSocket.framed(b'{"type":"close"}')
TURNS = 40
"""Sessions that each server opens in a round, one by one and in turn."""


async def opening(pair: Pair, rounds: int) -> list[Figure]:
    """From nothing to the first observation: connection, handshake, session, reset."""
    found: dict[str, list[list[float]]] = {"ours": [], "theirs": []}
    for _ in range(rounds + 1):
        turns = [(await _opening_seconds(pair.ours), await _opening_seconds(pair.theirs)) for _ in range(TURNS)]
        found["ours"].append([ours for ours, _ in turns])
        found["theirs"].append([theirs for _, theirs in turns])
    ours, theirs = ([median(seconds) for seconds in rows[1:]] for rows in found.values())
    ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
    note = f"p50 {median(ours) * 1000:.2f} / {median(theirs) * 1000:.2f} ms"
    measured = {**found, "ratios": ratios, "best": min(theirs) / min(ours)}
    what = "session create + reset, times as fast as OpenEnv"
    return [Figure(what=what, value=median(ratios), at_least=2, note=note, measured=measured)]


async def _opening_seconds(server: Server) -> float:
    began = time.perf_counter()
    link = await WebSocket().open(server.port)
    await link.ask(RESET)
    seconds = time.perf_counter() - began
    link.transport.write(CLOSE)
    await link.closed()
    return seconds


async def waiting(count: int = 1000) -> list[Figure]:
    """Memory and threads of sessions that were reset, made one step and wait. Servers of their own: fresh memory."""
    with pair() as fresh:
        ours, theirs = [await _waiting(server, count) for server in (fresh.ours, fresh.theirs)]
    note = f"OpenEnv {theirs['kib_each']:.1f} KiB"
    threads = f"OpenEnv {theirs['threads']:.0f}"
    both = {"ours": ours, "theirs": theirs}
    return [
        Figure(
            what=f"{count} open sessions, memory of each",
            value=ours["kib_each"],
            unit="KiB",
            at_most=40,
            note=note,
            measured=both,
        ),
        Figure(
            what=f"{count} open sessions, threads",
            value=ours["threads"],
            unit="",
            at_most=count // 10,
            note=threads,
            measured=both,
        ),
    ]


async def _waiting(server: Server, count: int) -> dict[str, float]:
    links = await _opened(server, 10, RESET, STEP)  # so that what is loaded with the first sessions does not count
    await asyncio.sleep(0.2)
    before = server.memory_bytes()
    more = await _opened(server, count - len(links), RESET, STEP)
    await asyncio.sleep(0.5)
    after, threads = server.memory_bytes(), server.threads()
    for link in links + more:
        link.abort()
    return {"kib_each": (after - before) / len(more) / 1024, "rss_mib": after / 2**20, "threads": threads}


async def _opened(server: Server, count: int, *messages: bytes) -> list[WebSocket]:
    """Sessions that were sent these messages, and answered."""

    async def one() -> WebSocket:
        link = await WebSocket().open(server.port)
        for message in messages:
            await link.ask(message)
        return link

    return await opened(count, one)


async def slow_steps(count: int = 2000) -> list[Figure]:
    """All sessions make a step of a second at the same time, on a server with its default settings."""
    figures = []
    for kind in (sleepers.Sleeper, sleepers.AsyncSleeper):
        with envweave_server(f"pkg://{kind.__module__}:{kind.__name__}") as server:
            links = await _opened(server, count, RESET)
            began = time.perf_counter()
            answers = await asyncio.gather(*(link.ask(STEP) for link in links), return_exceptions=True)
            seconds, threads = time.perf_counter() - began, server.threads()
            for link in links:
                link.abort()
        served = _served(answers)
        verb = "blocks" if kind is sleepers.Sleeper else "awaits"
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

"""All figures of the sandbox, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from rich.progress import track

from bench.figure import Figure
from bench.sandbox.forks import forks
from bench.sandbox.kills import kills
from bench.sandbox.memory import concurrent_sessions, idle_memory
from bench.sandbox.runs import runs
from bench.sandbox.starts import starts
from bench.timing import CONSOLE, skip


def measure(rounds: int, *, image: str | None = None) -> list[Figure]:
    """The figures, with their numbers in `measured`. Takes two minutes with twenty rounds.

    Containers are started from `image`, else from the one that the tests make, else from the sandbox's own.
    """
    if sys.platform != "linux":
        skip("the sandbox", "it needs Linux")
        return []
    figures: list[Figure] = []
    parts: tuple[Callable[[int], list[Figure]], ...] = (
        partial(starts, image=image),
        runs,
        forks,
        idle_memory,
        kills,
        concurrent_sessions,
    )
    for part in track(parts, "measuring the sandbox", console=CONSOLE):
        figures += part(rounds)
    return figures

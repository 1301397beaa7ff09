"""All figures of the sandbox, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from rich.progress import track

from envweave.bench.figure import Figure
from envweave.bench.sandbox.forks import forks
from envweave.bench.sandbox.kills import kills
from envweave.bench.sandbox.memory import crowd, idle
from envweave.bench.sandbox.runs import runs
from envweave.bench.sandbox.starts import starts
from envweave.bench.sandbox.timing import CONSOLE, left_out


def measure(rounds: int, *, image: str | None = None) -> list[Figure]:
    """The figures, with their numbers in `measured`. Takes a minute with five rounds, and less than three at worst.

    Containers are started in `image`, else in the one that the tests make, else in the sandbox's own.
    """
    if sys.platform != "linux":
        left_out("the sandbox", "its walls are Linux's")
        return []
    figures: list[Figure] = []
    parts: tuple[Callable[[int], list[Figure]], ...] = (partial(starts, image=image), runs, forks, idle, kills, crowd)
    for part in track(parts, "measuring the sandbox", console=CONSOLE):
        figures += part(rounds)
    return figures

"""All figures of the sandbox, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rich.progress import track

from envweave.bench.figure import Figure
from envweave.bench.sandbox.forks import forks
from envweave.bench.sandbox.kills import kills
from envweave.bench.sandbox.memory import crowd, idle
from envweave.bench.sandbox.runs import runs
from envweave.bench.sandbox.starts import starts
from envweave.bench.sandbox.timing import CONSOLE


def measure(rounds: int, *, image: str | None = None) -> list[Figure]:
    """The figures, with their numbers in `measured`. Takes a minute with five rounds, and less than three at worst.

    Of images in which a container can be started, `image` is taken, or else the one that the tests make.
    """
    figures: list[Figure] = []
    parts: tuple[Callable[[int], list[Figure]], ...] = (partial(starts, image=image), runs, forks, idle, kills, crowd)
    for part in track(parts, "measuring the sandbox", console=CONSOLE):
        figures += part(rounds)
    return figures

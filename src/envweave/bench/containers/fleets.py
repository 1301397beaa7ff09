"""Many containers at once, and one after the other; none is left."""

from __future__ import annotations

import os
from statistics import median

from envweave.bench.figure import Figure
from envweave.bench.sandbox.timing import timed
from envweave.providers.base import running
from envweave.providers.docker import LocalDockerProvider, found
from envweave.registry.vectors import make_vector

MANY = 20
CYCLES = 50
MOST_FLEETS = 3
"""A fleet takes a while."""


def fleet(image: str, rounds: int) -> list[Figure]:
    """A container for each environment of a vector."""
    every = [_fleet(image) for _ in range(min(rounds, MOST_FLEETS))]
    up, down = [each[0] for each in every], [each[1] for each in every]
    return [
        Figure(
            what=f"{MANY} containers in parallel, from make_vector to the first batch",
            value=min(up),
            unit="s",
            note=f"median {median(up):.1f}, worst {max(up):.1f}; all stopped in {median(down):.1f} s",
            measured={"unit": "s", "up": up, "down": down},
        )
    ]


def cycles(image: str, _rounds: int) -> list[Figure]:
    """Start, wait until healthy, stop, always the same number of times."""
    every = [timed(lambda: _cycle(image))[0] for _ in range(CYCLES)]
    _see_none_left()
    return [
        Figure(
            what=f"{CYCLES} times start and stop, containers left",
            value=0,
            unit="",
            at_most=0,
            note=f"{median(every):.2f} s each, quietest {min(every):.2f}, worst {max(every):.2f}",
            measured={"unit": "s", "every": every},
        )
    ]


def _fleet(image: str) -> tuple[float, float]:
    def begin() -> list[object]:
        return list(vector.reset().results)

    making, vector = timed(
        lambda: make_vector("echo", MANY, backend="docker_http", docker_image=image, containers=MANY)
    )
    try:
        resetting, results = timed(begin)
        if len(results) != MANY or len(_left()) != MANY:
            raise RuntimeError(f"{len(_left())} containers and {len(results)} results for {MANY} environments")
    finally:
        closing, _ = timed(vector.close)
    _see_none_left()
    return making + resetting, closing


def _cycle(image: str) -> None:
    with running(LocalDockerProvider(image)):
        pass


def _see_none_left() -> None:
    if left := _left():
        raise RuntimeError(f"containers are left: {', '.join(left)}")


def _left() -> list[str]:
    """The names of containers that this process has started and that are still there."""
    return [each.name for each in found() if each.owner == str(os.getpid())]

"""Many containers at once, and one after the other. None may be left behind."""

from __future__ import annotations

import os
from statistics import median

from bench.figure import Figure
from bench.timing import timed
from envweave.providers.base import running
from envweave.providers.docker import LocalDockerProvider, list_containers
from envweave.registry.vectors import make_vector

CONTAINERS = 20
STARTS = 50
MAX_ROUNDS = 3
"""Of many containers, because a round takes about ten seconds."""


def many_containers(image: str, rounds: int) -> list[Figure]:
    """A container for each environment of a vector."""
    every = [_start_and_stop_many(image) for _ in range(min(rounds, MAX_ROUNDS))]
    up, down = [each[0] for each in every], [each[1] for each in every]
    return [
        Figure.of(
            up,
            what=f"{CONTAINERS} containers in parallel, from make_vector to the first batch",
            unit="s",
            note=f"best {min(up):.1f}, slowest {max(up):.1f}; all stopped in {median(down):.1f} s",
            measured={"unit": "s", "up": up, "down": down},
        )
    ]


def repeated_starts(image: str, _: int) -> list[Figure]:
    """Start, wait until healthy, stop."""
    every = [timed(lambda: _start_and_stop(image))[0] for _ in range(STARTS)]
    _check_none_left()
    return [
        Figure(
            what=f"{STARTS} times start and stop, containers left",
            value=0,
            unit="",
            at_most=0,
            note=f"{median(every):.2f} s each, best {min(every):.2f}, slowest {max(every):.2f}",
            measured={"unit": "s", "every": every},
        )
    ]


def _start_and_stop_many(image: str) -> tuple[float, float]:
    making, vector = timed(
        lambda: make_vector("echo", CONTAINERS, backend="docker", docker_image=image, containers=CONTAINERS)
    )
    try:
        resetting, batch = timed(vector.reset)
        if len(batch) != CONTAINERS or len(_left()) != CONTAINERS:
            raise RuntimeError(f"{len(_left())} containers and {len(batch)} results for {CONTAINERS} environments")
    finally:
        closing, _ = timed(vector.close)
    _check_none_left()
    return making + resetting, closing


def _start_and_stop(image: str) -> None:
    with running(LocalDockerProvider(image)):
        pass


def _check_none_left() -> None:
    if left := _left():
        raise RuntimeError(f"containers are left behind: {', '.join(left)}")


def _left() -> list[str]:
    """The names of containers that this process started and that still exist."""
    return [each.name for each in list_containers() if each.owner == str(os.getpid())]

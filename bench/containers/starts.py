"""From an image to the first observation: the parts of the container, the server and the client."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median
from typing import Any

from bench.figure import Figure
from envweave.docker_client import connected
from envweave.envs.echo import EchoEnv
from envweave.providers.base import labels
from envweave.providers.docker import LocalDockerProvider


@dataclass(frozen=True)
class ContainerStart:
    """One start, in seconds."""

    total: float
    container: float
    """In `provider.start`."""
    healthy: float
    """From there until the server answers."""
    reset: float
    """To connect and begin an episode."""
    server: float
    """From the start of the server's process until it answers. Begins before `provider.start` returns."""


class TimedDockerProvider(LocalDockerProvider):
    """Records when `start` returned and when the server was healthy."""

    def start(self, *args: Any, **options: Any) -> str:
        url = super().start(*args, **options)
        self.started = time.perf_counter()
        return url

    def wait_for_ready(self, *args: Any, **options: Any) -> None:
        super().wait_for_ready(*args, **options)
        self.healthy, self.healthy_at = time.perf_counter(), time.time()

    def server_seconds(self) -> float:
        """Uses the daemon's clock and this process's clock, which are the same on one machine."""
        with connected() as client:
            began = client.containers.get(self.name).attrs["State"]["StartedAt"]
        return self.healthy_at - datetime.fromisoformat(began).timestamp()


def starts(image: str, rounds: int) -> list[Figure]:
    """In turn with a bare `docker run`. The first of both does not count."""
    first_observation(image)
    docker_run(image)
    ours: list[ContainerStart] = []
    bare: list[float] = []
    for _ in range(rounds):
        bare.append(docker_run(image))
        ours.append(first_observation(image))
    measured = {"unit": "s", "starts": [asdict(each) for each in ours], "docker_run": bare}
    typical = [median(getattr(each, part) for each in ours) for part in ("container", "healthy", "reset")]
    parts = "provider.start {:.2f}, until healthy {:.2f}, connect and reset {:.3f} s".format(*typical)
    overhead = [own.container / theirs for own, theirs in zip(ours, bare, strict=True)]
    return [
        _seconds("from an image to the first observation", ours, lambda each: each.total, parts, measured),
        _seconds("server start inside the container", ours, lambda each: each.server, "until healthy", {}, at_most=0.6),
        Figure.of(
            overhead,
            what="provider.start / docker run by the bare SDK",
            note=f"{typical[0]:.2f} / {median(bare):.2f} s",
            measured={"ratios": overhead},
        ),
    ]


def first_observation(image: str) -> ContainerStart:
    """Starts a container with the client and stops it."""
    provider = TimedDockerProvider()
    began = time.perf_counter()
    with EchoEnv.from_docker_image(image, provider=provider) as env:
        env.reset()
        ended = time.perf_counter()
        return ContainerStart(
            total=ended - began,
            container=provider.started - began,
            healthy=provider.healthy - provider.started,
            reset=ended - provider.healthy,
            server=provider.server_seconds(),
        )


def docker_run(image: str) -> float:
    """Seconds that the SDK takes to start a container with a published port, including a new SDK client."""
    began = time.perf_counter()
    with connected() as client:
        container = client.containers.run(image, detach=True, ports={"8000/tcp": ("127.0.0.1", None)}, labels=labels())
        seconds = time.perf_counter() - began
        container.remove(v=True, force=True)
    return seconds


def _seconds(
    what: str,
    starts: Sequence[ContainerStart],
    part: Callable[[ContainerStart], float],
    note: str,
    measured: dict[str, Any],
    *,
    at_most: float | None = None,
) -> Figure:
    every = [part(each) for each in starts]
    note = f"best {min(every):.2f}, slowest {max(every):.2f}; {note}"
    measured = measured or {"unit": "s", "every": every}
    return Figure.of(every, what=what, unit="s", at_most=at_most, note=note, measured=measured)

"""The start of a session: forked from a warm fork server, taken from a pool, in a new container."""

from __future__ import annotations

import platform
from contextlib import ExitStack
from statistics import median

from bench.figure import Figure
from bench.timing import PAUSE, alternate, skip, timed
from envweave.errors import EnvWeaveError
from envweave.sandbox import Sandbox

STARTS, CONTAINER_STARTS = 4, 1
"""In a round."""
TEST_IMAGE = f"envweave-test-base:{platform.python_version()}"
"""An image that the tests make. No image is downloaded."""


class SessionStarter:
    """Starts sessions one by one, each after a pause. Closing them is not counted."""

    def __init__(self, sandbox: Sandbox, count: int) -> None:
        self.sandbox = sandbox
        self.first_runs: list[float] = []
        """Seconds of the first run in each session."""
        self._count = count
        sandbox.start().close()

    def __call__(self) -> list[float]:
        return [self._start() for _ in range(self._count)]

    def _start(self) -> float:
        pool = self.sandbox._pool
        if pool is not None and not pool.wait_full(30):
            raise RuntimeError("the pool was not full within 30 s")
        seconds, session = timed(self.sandbox.start, pause=PAUSE)
        with session:
            self.first_runs.append(timed(lambda: session.run("x = 1"))[0])
        return seconds

    @property
    def note(self) -> str:
        return f"first run {median(self.first_runs) * 1e3:.2g} ms"


def starts(rounds: int, image: str | None) -> list[Figure]:
    """In containers only if there is a Docker daemon with the image."""
    versus = "start in a container (docker run) / from a warm fork server"
    with ExitStack() as stack:
        server = SessionStarter(stack.enter_context(Sandbox(preload=["numpy"])), STARTS)
        pooled = SessionStarter(stack.enter_context(Sandbox(preload=["numpy"], pool=4)), STARTS)
        starters = [server, pooled]
        try:
            starters.append(SessionStarter(stack.enter_context(_in_containers(image)), CONTAINER_STARTS))
        except EnvWeaveError as error:
            skip(versus, error)
        warm, pool, *containers = alternate(rounds, starters)
    figures = [
        warm.figure("start from a warm fork server, numpy preloaded", unit="ms", at_most=15, note=server.note),
        pool.figure("start from a warm pool, numpy preloaded", unit="ms", at_most=4, note=pooled.note),
    ]
    for container in containers:
        note = f"{container.median * 1e3:.0f} / {warm.median * 1e3:.1f} ms, the container without numpy"
        figures.append(warm.times_faster(container, versus, at_least=15, note=note))
    return figures


def _in_containers(image: str | None) -> Sandbox:
    """Uses the named image, else the first that is there. Raises the last error if there is none."""
    for each in (image,) if image is not None else (TEST_IMAGE, None):
        sandbox = Sandbox("docker", image=each)
        try:
            sandbox.report()
            return sandbox
        except EnvWeaveError as error:
            sandbox.close()
            reason = error
    raise reason

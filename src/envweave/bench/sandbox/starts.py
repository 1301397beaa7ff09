"""From nothing to a session that answers: forked from a warm fork-server, taken from a pool, in a fresh container."""

from __future__ import annotations

import platform
from contextlib import ExitStack
from statistics import median

from envweave.bench.figure import Figure
from envweave.bench.sandbox.timing import PAUSE, in_turns, left_out, timed
from envweave.errors import EnvWeaveError
from envweave.sandbox import Sandbox

EACH, FEW = 20, 2
"""Starts in a turn, and those of containers."""
OF_THE_TESTS = f"envweave-test-base:{platform.python_version()}"
"""An image that the tests make. None is downloaded."""


class Starter:
    """Starts sessions one by one, each after a rest: a contender. Ending them is not counted."""

    def __init__(self, sandbox: Sandbox, count: int) -> None:
        self.sandbox = sandbox
        self.first_runs: list[float] = []
        """Seconds of what a session runs first, which finds nothing warm."""
        self._count = count
        sandbox.start().close()

    def __call__(self) -> list[float]:
        return [self._start() for _ in range(self._count)]

    def _start(self) -> float:
        pool = self.sandbox._pool
        if pool is not None and not pool.wait_full(30):
            raise RuntimeError("the pool has not become full within 30 s")
        seconds, session = timed(self.sandbox.start, rested=PAUSE)
        with session:
            self.first_runs.append(timed(lambda: session.run("x = 1"))[0])
        return seconds

    @property
    def note(self) -> str:
        return f"the first run then {median(self.first_runs) * 1e3:.2g} ms"


def starts(rounds: int, image: str | None) -> list[Figure]:
    """A median of one round each."""
    versus = "start in a container (docker run) / from a warm fork-server"
    with ExitStack() as stack:
        server = Starter(stack.enter_context(Sandbox(preload=["numpy"])), EACH)
        pooled = Starter(stack.enter_context(Sandbox(preload=["numpy"], pool=4)), EACH)
        contenders = [server, pooled]
        try:
            contenders.append(Starter(stack.enter_context(_in_containers(image)), FEW))
        except EnvWeaveError as error:
            left_out(versus, error)
        warm, pool, *containers = in_turns(rounds, contenders)
    figures = [
        warm.figure("start from a warm fork-server, numpy preloaded", unit="ms", at_most=15, note=server.note),
        pool.figure("start from a warm pool, numpy preloaded", unit="ms", at_most=4, note=pooled.note),
    ]
    for container in containers:
        note = f"{container.median * 1e3:.0f} / {warm.median * 1e3:.1f} ms, the container without numpy"
        figures.append(warm.times_faster(container, versus, at_least=15, note=note))
    return figures


def _in_containers(image: str | None) -> Sandbox:
    """In the image that is named, or one of those that may be there. Raises the last reason why not."""
    for each in (image,) if image is not None else (OF_THE_TESTS, None):
        sandbox = Sandbox("docker", image=each)
        try:
            sandbox.report()
            return sandbox
        except EnvWeaveError as error:
            sandbox.close()
            reason = error
    raise reason

"""From nothing to a session that answers: forked from a warm fork-server, taken from a pool, in a fresh container."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from envweave.bench.figure import Figure
from envweave.bench.sandbox.containers import image_for
from envweave.bench.sandbox.timing import Contender, in_turns, left_out, timed
from envweave.errors import EnvWeaveError
from envweave.sandbox import Sandbox
from envweave.sandbox.pool import Pool

EACH, FEW = 20, 1
"""Starts in a turn, and those of containers."""


def starts(rounds: int, image: str | None) -> list[Figure]:
    """The median of all. Ending a session is not counted."""
    versus = "start in a container (docker run) / from a warm fork-server"
    with ExitStack() as stack:
        server = stack.enter_context(Sandbox(preload=["numpy"]))
        pooled = stack.enter_context(Sandbox(preload=["numpy"], pool=4))
        contenders: list[Contender] = [partial(_starts, server, EACH), partial(_from_pool, pooled, EACH)]
        try:
            docker = stack.enter_context(Sandbox("docker", image=image_for(image)))
            docker.start().close()
            contenders.append(partial(_starts, docker, FEW))
        except (EnvWeaveError, ImportError) as error:
            left_out(versus, error)
        warm, pool, *container = in_turns(rounds, contenders)
    figures = [
        warm.figure("start from a warm fork-server, numpy preloaded", unit="ms", at_most=15),
        pool.figure("start from a warm pool, numpy preloaded", unit="ms", at_most=4),
    ]
    for other in container:
        note = f"{other.median * 1e3:.0f} / {warm.median * 1e3:.1f} ms, the container without numpy"
        figures.append(warm.times_faster(other, versus, at_least=15, note=note))
    return figures


def _starts(sandbox: Sandbox, count: int) -> list[float]:
    found = []
    for _ in range(count):
        seconds, session = timed(sandbox.start)
        session.close()
        found.append(seconds)
    return found


def _from_pool(sandbox: Sandbox, count: int) -> list[float]:
    """The pool is full before each; that it is being filled again meanwhile is part of it."""
    sandbox.start().close()  # from the first start on there is somebody who fills it
    pool = sandbox._pool
    assert isinstance(pool, Pool)
    found = []
    for _ in range(count):
        if not pool.wait_full(30):
            raise RuntimeError("the pool has not become full within 30 s")
        found += _starts(sandbox, 1)
    return found

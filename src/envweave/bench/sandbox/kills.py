"""Code that swallows the interrupt at the end of its time, or never sees it, is killed, and that does not take long."""

from __future__ import annotations

from statistics import median

from envweave.bench.figure import Figure
from envweave.bench.sandbox.timing import timed
from envweave.sandbox import Sandbox

TIMES, LIMIT = 20, 0.1
"""Kills, and seconds before each."""

SWALLOWED = """
import time
while True:
    try:
        time.sleep(0.001)
    except BaseException:
        pass
"""
UNSEEN = "sum(range(10**12))"


def kills(_: int) -> list[Figure]:
    """From the limit to the return of `run`, with a fresh worker in the session's place."""
    late = []
    with Sandbox(preload=["numpy"]) as sandbox, sandbox.start() as session:
        for number in range(TIMES):
            code = SWALLOWED if number % 2 else UNSEEN
            seconds, result = timed(lambda code=code: session.run(code, timeout=LIMIT))  # type: ignore[misc]
            if result.limit is None or result.limit.name != "wall" or result.state != "restarted":
                raise RuntimeError(f"the code was not killed at its limit: {result}")
            late.append((seconds - LIMIT) * 1e3)
    note = f"of {TIMES}, until run() returns with a fresh worker; {sandbox.limits.grace * 1e3:.0f} ms are the grace"
    measured = {"ms": late}
    return [
        Figure(what="killed after the limit", value=median(late), unit="ms", at_most=100, note=note, measured=measured),
        Figure(what="the same at worst", value=max(late), unit="ms", at_most=100),
    ]

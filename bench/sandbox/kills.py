"""How long it takes to kill code that ignores the interrupt at its time limit."""

from __future__ import annotations

from bench.figure import Figure
from bench.timing import timed
from envweave.sandbox import Sandbox

KILLS, LIMIT = 20, 0.1
"""Their number, and the time limit in seconds."""

IGNORED = """
import time
while True:
    try:
        time.sleep(0.001)
    except BaseException:
        pass
"""
NOT_NOTICED = "sum(range(10**12))"


def kills(_: int) -> list[Figure]:
    """From the limit to the return of `run`, which includes the start of a new worker."""
    late = []
    with Sandbox(preload=["numpy"]) as sandbox, sandbox.start() as session:
        for number in range(KILLS):
            code = IGNORED if number % 2 else NOT_NOTICED
            seconds, result = timed(lambda code=code: session.run(code, timeout=LIMIT))  # type: ignore[misc]
            if result.limit is None or result.limit.name != "wall" or result.state != "restarted":
                raise RuntimeError(f"the code was not killed at its limit: {result}")
            late.append((seconds - LIMIT) * 1e3)
    note = f"{KILLS} times, until run() returns with a new worker; grace period {sandbox.limits.grace * 1e3:.0f} ms"
    measured = {"ms": late}
    return [
        Figure.of(late, what="killed after the limit", unit="ms", at_most=100, note=note, measured=measured),
        Figure(what="the same at worst", value=max(late), unit="ms", at_most=100),
    ]

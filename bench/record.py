"""What a record costs: steps of a handle with `record` and of the same handle without it take turns.

Measured in CPU time, including that of the kernel: on a machine with other work a step of a few microseconds takes
several times as long.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.progress import track

from bench.figure import Figure
from bench.timing import CONSOLE, Durations, alternate, skip
from envweave.core.handle import EnvHandle
from envweave.envs.counter import CounterEnv, Increment
from envweave.registry.make import make

AT_MOST = 15
"""Microseconds that a step may take longer."""

COUNTER = {"id": CounterEnv, "done_at": 10**12}
CASES: list[tuple[str, dict[str, Any], Any, int, float | None]] = [
    ("a step of a typed environment", COUNTER, Increment(1), 5000, AT_MOST),
    ("a step with a dict action", COUNTER, {"delta": 1}, 5000, AT_MOST),
    ("a step of codeact", {"id": "codeact"}, {"code": "x = 1"}, 200, None),
]


def measure(rounds: int) -> list[Figure]:
    """The figures, with their numbers in `measured`. Takes about a minute with twenty rounds."""
    figures = []
    for what, options, action, steps, at_most in track(CASES, "measuring records", console=CONSOLE):
        if options["id"] == "codeact" and sys.platform != "linux":
            skip(what, "the sandbox needs Linux")
            continue
        with (
            TemporaryDirectory() as folder,
            make(**options, record=Path(folder)) as recorded,
            make(**options) as plain,
        ):
            sides = [partial(_round, env, action, steps) for env in (recorded, plain)]
            with_it, without = alternate(rounds, sides)
        figures.append(_figure(what, with_it, without, at_most))
    return figures


def _round(env: EnvHandle[Any, Any], action: Any, steps: int) -> list[float]:
    """The mean of many steps, because a look at the clock is not much shorter than one of them."""
    env.reset()
    began = time.process_time()
    for _ in range(steps):
        env.step(action)
    return [(time.process_time() - began) / steps]


def _figure(what: str, with_it: Durations, without: Durations, at_most: float | None) -> Figure:
    more = [(own - other) * 1e6 for own, other in zip(with_it.medians, without.medians, strict=True)]
    note = f"{with_it.median * 1e6:.2f} - {without.median * 1e6:.2f} µs"
    measured = {"differences": more, "with": with_it.rounds, "without": without.rounds}
    return Figure.of(more, what=f"record: {what}", unit="µs", at_most=at_most, note=note, measured=measured)

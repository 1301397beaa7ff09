"""Code in a running session, against smolagents' `LocalPythonExecutor`, which interprets it in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.figure import Figure
from bench.timing import Durations, Round, alternate, skip, timed
from envweave.sandbox import Sandbox

ASSIGNMENT = "x = 1"
LOOP = "total = 0\nfor i in range(1000):\n    total += i"

RUNS = {ASSIGNMENT: 300, LOOP: 15}
"""In a round."""


def runs(rounds: int) -> list[Figure]:
    """A round takes 50 to 100 ms."""
    with Sandbox(preload=["numpy"]) as sandbox, sandbox.start() as session:
        try:
            other = _smolagents()
        except ImportError as error:
            other = None
            skip("runs against smolagents", error)
        assignment = _measured(ASSIGNMENT, rounds, session.run, other)
        loop = _measured(LOOP, rounds, session.run, other)
    peer = "smolagents' LocalPythonExecutor"
    return [
        assignment[0].figure(f'run("{ASSIGNMENT}")', unit="µs", at_most=200),
        *_against(assignment, f'run("{ASSIGNMENT}") / {peer}', at_least=1),
        *_against(loop, f"a loop of 1,000 iterations / {peer}", at_least=10),
    ]


def _measured(code: str, rounds: int, *runners: Callable[[str], object] | None) -> list[Durations]:
    calls: list[Round] = [partial(_round, run, code) for run in runners if run is not None]
    return alternate(2 * rounds, calls)


def _round(run: Callable[[str], object], code: str) -> list[float]:
    return [timed(lambda: run(code))[0] for _ in range(RUNS[code])]


def _against(found: list[Durations], what: str, *, at_least: float) -> list[Figure]:
    """No figure if there is no peer."""
    ours, *others = found
    figures = []
    for other in others:
        note = f"{other.median * 1e6:.0f} / {ours.median * 1e6:.0f} µs"
        figures.append(ours.times_faster(other, what, at_least=at_least, note=note))
    return figures


def _smolagents() -> Callable[[str], object]:
    """As its agents use it: with its safe built-ins and a time limit."""
    from smolagents import LocalPythonExecutor  # a peer, not a dependency

    executor = LocalPythonExecutor([])
    executor.send_tools({})
    run: Callable[[str], object] = executor
    return run

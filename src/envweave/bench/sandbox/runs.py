"""Code in a session that is up, against smolagents' `LocalPythonExecutor`, which interprets it in our own process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from envweave.bench.figure import Figure
from envweave.bench.sandbox.timing import Contender, Timed, in_turns, left_out, timed
from envweave.sandbox import Sandbox

ASSIGNMENT = "x = 1"
LOOP = "total = 0\nfor i in range(1000):\n    total += i"

EACH = {ASSIGNMENT: 1500, LOOP: 60}
"""Runs in a turn."""


def runs(rounds: int) -> list[Figure]:
    """A turn is a quarter of a second."""
    with Sandbox(preload=["numpy"]) as sandbox, sandbox.start() as session:
        try:
            other = _smolagents()
        except ImportError as error:
            other = None
            left_out("runs against smolagents", error)
        assignment = _measured(ASSIGNMENT, rounds, session.run, other)
        loop = _measured(LOOP, rounds, session.run, other)
    peer = "smolagents' LocalPythonExecutor"
    return [
        assignment[0].figure(f'run("{ASSIGNMENT}")', unit="µs", at_most=200),
        *_against(assignment, f'run("{ASSIGNMENT}") / {peer}', at_least=1),
        *_against(loop, f"a loop of 1,000 iterations / {peer}", at_least=10),
    ]


def _measured(code: str, rounds: int, *runners: Callable[[str], object] | None) -> list[Timed]:
    contenders: list[Contender] = [partial(_turn, run, code) for run in runners if run is not None]
    return in_turns(2 * rounds, contenders)


def _turn(run: Callable[[str], object], code: str) -> list[float]:
    return [timed(lambda: run(code))[0] for _ in range(EACH[code])]


def _against(found: list[Timed], what: str, *, at_least: float) -> list[Figure]:
    """Nothing, where there is no other."""
    ours, *others = found
    figures = []
    for other in others:
        note = f"{other.median * 1e6:.0f} / {ours.median * 1e6:.0f} µs"
        figures.append(ours.times_faster(other, what, at_least=at_least, note=note))
    return figures


def _smolagents() -> Callable[[str], object]:
    """As its agents use it: with its safe built-ins, and a limit of time."""
    from smolagents import LocalPythonExecutor  # a peer, not something we need

    executor = LocalPythonExecutor([])
    executor.send_tools({})
    run: Callable[[str], object] = executor
    return run

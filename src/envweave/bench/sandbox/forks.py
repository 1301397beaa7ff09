"""A second session with the same live state, however much that is."""

from __future__ import annotations

from functools import partial

from envweave.bench.figure import Figure
from envweave.bench.sandbox.timing import PAUSE, Contender, in_turns, timed
from envweave.sandbox import Sandbox, Session

EACH = 8
"""Forks in a turn."""

ARRAY = """
import numpy
held = numpy.ones(100 * 2**20 // 8)
"""

OBJECTS = """
def memory():
    with open("/proc/self/statm") as text:
        return int(text.read().split()[1]) * 4096
held, before = [], memory()
while memory() - before < 100 * 2**20:
    held += [{"id": i, "name": f"row {i}", "score": i / 3} for i in range(10_000)]
"""


def forks(rounds: int) -> list[Figure]:
    """A median of one round each. Ending a fork is not counted."""
    with Sandbox(preload=["numpy"]) as sandbox:
        sessions = [sandbox.start() for _ in range(3)]
        for session, code in zip(sessions, ("held = []", ARRAY, OBJECTS), strict=True):
            result = session.run(code)
            if not result.success:
                raise RuntimeError(f"the session could not fill its memory: {result.exception}")
        objects = sessions[2].run("len(held)").return_value
        contenders: list[Contender] = [partial(_turn, session) for session in sessions]
        empty, array, rows = in_turns(rounds, contenders)
    made_of = f"{objects:,} dicts of an int, a str and a float"
    return [
        array.figure(
            "fork of a session that holds 100 MB of numpy",
            unit="ms",
            at_most=10,
            note=f"{empty.median * 1e3:.1f} ms with nothing in it",
        ),
        rows.figure("fork of a session that holds 100 MB of objects", unit="ms", at_most=40, note=made_of),
    ]


def _turn(session: Session) -> list[float]:
    found = []
    for _ in range(EACH):
        seconds, fork = timed(session.fork, rested=PAUSE)
        with fork:
            if fork.run("len(held)").return_value != session.run("len(held)").return_value:
                raise RuntimeError("a fork does not hold what its session holds")
        found.append(seconds)
    return found

"""Forks of sessions with much live state."""

from __future__ import annotations

from functools import partial

from bench.figure import Figure
from bench.timing import PAUSE, Round, alternate, timed
from envweave.sandbox import Sandbox, Session

FORKS = 2
"""In a round."""

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
    """Closing a fork is not counted."""
    with Sandbox(preload=["numpy"]) as sandbox:
        sessions = [sandbox.start() for _ in range(3)]
        for session, code in zip(sessions, ("held = []", ARRAY, OBJECTS), strict=True):
            result = session.run(code)
            if not result.success:
                raise RuntimeError(f"the session could not fill its memory: {result.exception}")
        objects = sessions[2].run("len(held)").return_value
        calls: list[Round] = [partial(_round, session) for session in sessions]
        empty, array, rows = alternate(rounds, calls)
    content = f"{objects:,} dicts of an int, a str and a float"
    return [
        array.figure(
            "fork of a session that holds 100 MB of numpy",
            unit="ms",
            at_most=10,
            note=f"{empty.median * 1e3:.1f} ms if it is empty",
        ),
        rows.figure("fork of a session that holds 100 MB of objects", unit="ms", at_most=40, note=content),
    ]


def _round(session: Session) -> list[float]:
    found = []
    for _ in range(FORKS):
        seconds, fork = timed(session.fork, pause=PAUSE)
        with fork:
            if fork.run("len(held)").return_value != session.run("len(held)").return_value:
                raise RuntimeError("a fork does not hold what its session holds")
        found.append(seconds)
    return found

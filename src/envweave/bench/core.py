"""The machinery in one process: handles and vectors against gymnasium, and the time of the import.

Contenders take turns, one process each, and the best of the rounds counts: a shared machine only ever makes a
run slower. What counts is the ratio, not the microseconds.
"""

from __future__ import annotations

import subprocess
import sys
import time

from rich.console import Console
from rich.progress import track

from envweave.bench.figure import Figure

TIMED = (
    "counter_alone",
    "counter_typed",
    "counter_dict",
    "trivial_gymnasium_sync",
    "trivial_envweave",
    "cartpole_loop",
    "cartpole_gymnasium_sync",
    "cartpole_envweave",
)

Measured = dict[str, list[float]]


def measure(rounds: int) -> tuple[list[Figure], Measured]:
    """The figures, and each contender's numbers."""
    turns = [(name, turn) for turn in range(rounds) for name in (*TIMED, "import", "stragglers_ready_first")]
    found: Measured = {}
    for name, _ in track(turns, "measuring core", console=Console(stderr=True)):
        found.setdefault(name, []).append(import_seconds() if name == "import" else measured(name))
    return figures({name: min(values) for name, values in found.items()}, max(found["stragglers_ready_first"])), found


def measured(name: str) -> float:
    code = f"from envweave.bench.contenders import CONTENDERS; print(CONTENDERS[{name!r}]())"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def import_seconds() -> float:
    """What `import envweave` adds to the start of the interpreter."""
    return _run_seconds("import envweave") - _run_seconds("pass")


def _run_seconds(code: str) -> float:
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        best = min(best, time.perf_counter() - began)
    return best


def figures(best: dict[str, float], stragglers: float) -> list[Figure]:
    """Each figure with the bound it is meant to keep."""
    alone, loop = best["counter_alone"], best["cartpole_loop"]
    typed, plain = best["counter_typed"] - alone, best["counter_dict"] - alone
    trivial = best["trivial_gymnasium_sync"] / best["trivial_envweave"]
    theirs = loop / best["cartpole_gymnasium_sync"]
    ready_first = "64 threads, 5 % slow steps, recv(min_ready=1) / ideal"
    return [
        Figure(what="handle step, typed action, over the environment", value=typed, unit="µs", at_most=2),
        Figure(what="handle step, dict action, over the environment", value=plain, unit="µs", at_most=5),
        Figure(what="vector of 256 trivial / gymnasium SyncVectorEnv", value=trivial, at_least=0.8),
        Figure(what="vector of 256 CartPoles / plain loop", value=loop / best["cartpole_envweave"], at_least=0.85),
        Figure(what="the same for gymnasium SyncVectorEnv", value=theirs),
        Figure(what=ready_first, value=stragglers, at_least=0.85),
        Figure(what="import envweave", value=best["import"], unit="s", at_most=0.15),
    ]

"""Measure, print a table, write JSON.

    python -m envweave.bench [--rounds 5] [--out bench.json]

Contenders take turns, one process each, and the best of the rounds counts: a shared machine only ever makes a
run slower. What counts is the ratio, not the microseconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

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


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast envweave is, against its peers.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    options = parser.parse_args()
    turns = [(name, turn) for turn in range(options.rounds) for name in (*TIMED, "import", "stragglers_ready_first")]
    found: dict[str, list[float]] = {}
    for name, _ in track(turns, "measuring", console=Console(stderr=True)):
        found.setdefault(name, []).append(import_seconds() if name == "import" else measured(name))
    rows = figures({name: min(values) for name, values in found.items()}, max(found["stragglers_ready_first"]))
    data = {"python": platform.python_version(), "figures": rows, "measured": found}
    options.out.write_text(json.dumps(data, indent=2) + "\n")
    show(rows)


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


def figures(best: dict[str, float], stragglers: float) -> list[dict[str, Any]]:
    """Each figure with the bound it is meant to keep."""

    def figure(what: str, value: float, unit: str, bound: float, *, at_most: bool) -> dict[str, Any]:
        kept = value <= bound if at_most else value >= bound
        wanted = f"{'≤' if at_most else '≥'} {bound:g}"
        return {"what": what, "value": round(value, 3), "unit": unit, "wanted": wanted, "kept": kept}

    alone = best["counter_alone"]
    return [
        figure("handle step, typed action, over the environment", best["counter_typed"] - alone, "µs", 2, at_most=True),
        figure("handle step, dict action, over the environment", best["counter_dict"] - alone, "µs", 5, at_most=True),
        figure(
            "vector of 256 trivial / gymnasium SyncVectorEnv",
            best["trivial_gymnasium_sync"] / best["trivial_envweave"],
            "x",
            0.8,
            at_most=False,
        ),
        figure(
            "vector of 256 CartPoles / plain loop",
            best["cartpole_loop"] / best["cartpole_envweave"],
            "x",
            0.85,
            at_most=False,
        ),
        figure(
            "the same for gymnasium SyncVectorEnv",
            best["cartpole_loop"] / best["cartpole_gymnasium_sync"],
            "x",
            0.0,
            at_most=False,
        ),
        figure("64 threads, 5 % slow steps, recv(min_ready=1) / ideal", stragglers, "x", 0.85, at_most=False),
        figure("import envweave", best["import"], "s", 0.15, at_most=True),
    ]


def show(rows: list[dict[str, Any]]) -> None:
    table = Table("figure", "measured", "wanted", "", box=None, pad_edge=False)
    for row in rows:
        wanted = "" if row["wanted"] == "≥ 0" else row["wanted"]
        table.add_row(row["what"], f"{row['value']:g} {row['unit']}", wanted, "✓" if row["kept"] else "✗ missed")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()

"""Measure, print a table, write JSON.

    python -m envweave.bench [--only all|core|wire] [--rounds 5] [--out bench.json]

Every figure that compares names its peer, which runs in the same minutes on the same machine: what counts is the
ratio, not the microseconds.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

from envweave.bench.figure import Figure, show


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast envweave is, against its peers.")
    parser.add_argument("--only", choices=("all", "core", "wire"), default="all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    options = parser.parse_args()
    figures: list[Figure] = []
    data: dict[str, Any] = {"python": platform.python_version()}
    if options.only != "wire":
        from envweave.bench import core

        found, data["measured"] = core.measure(options.rounds)
        figures += found
    if options.only != "core":
        from envweave.bench.wire import run  # uvloop and msgspec, which `core` does without

        figures += run.measure(2 * options.rounds)  # a round is two slices of less than half a second
    data["figures"] = [figure.to_data() for figure in figures]
    options.out.write_text(json.dumps(data, indent=2) + "\n")
    show(figures)


if __name__ == "__main__":
    main()

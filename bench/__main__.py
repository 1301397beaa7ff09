"""Measure, print a table, write JSON.

    python -m bench [--only core|wire|sandbox|code|rollouts|record|containers]… [--rounds 20] [--out bench.json]
                             [--image NAME] [--env-image NAME]

What is compared takes turns in short slices, so that other load on the machine affects both sides. A figure is the
median over all rounds, with the 10th and the 90th percentile beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from bench.figure import Figure, show

ROOT = Path(__file__).parents[1]
"""The folder that worker processes import this package from."""

PARTS = ("core", "wire", "sandbox", "code", "rollouts", "record", "containers")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how fast envweave is, against its peers.")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be repeated; all if absent")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each side of a comparison")
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    parser.add_argument("--image", help="an image with Python for sandbox sessions in containers; never downloaded")
    parser.add_argument("--env-image", help="an image that serves echo; default: the one of `envweave build echo`")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    figures: list[Figure] = []
    seconds: dict[str, float] = {}
    for part in PARTS:
        if not options.only or part in options.only:
            began = time.perf_counter()
            figures += measure(part, options)
            seconds[part] = round(time.perf_counter() - began, 1)
    data: dict[str, Any] = {"python": platform.python_version(), "rounds": options.rounds, "seconds": seconds}
    data["figures"] = [figure.to_data() for figure in figures]
    options.out.write_text(json.dumps(data, indent=2) + "\n")
    show(figures)


def measure(part: str, options: argparse.Namespace) -> list[Figure]:
    """The figures of one part. Each imports packages that the others do without."""
    match part:
        case "core":
            from bench.core import run as core

            return core.measure(options.rounds)
        case "wire":
            from bench.wire import run as wire

            return wire.measure(2 * options.rounds)  # a slice is short and two processes share the noise
        case "sandbox":
            from bench.sandbox import run as sandbox

            return sandbox.measure(options.rounds, image=options.image)
        case "code":
            from bench import code

            return code.measure(options.rounds)
        case "record":
            from bench import record

            return record.measure(options.rounds)
        case "rollouts":
            from bench import rollouts

            return rollouts.measure(options.rounds)
        case _:
            from bench.containers import run as containers

            return containers.measure(options.rounds, image=options.env_image)


if __name__ == "__main__":
    main()

"""Measure, print a table, write JSON.

    python -m envweave.bench [--only all|core|wire|sandbox|code|containers] [--rounds 5] [--out bench.json]
                             [--image NAME] [--env-image NAME]

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
    parser.add_argument("--only", choices=("all", "core", "wire", "sandbox", "code", "containers"), default="all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    parser.add_argument("--image", help="with Python, for sessions in a container; none is downloaded")
    parser.add_argument("--env-image", help="that serves echo; envweave-echo:latest, which `envweave build echo` makes")
    options = parser.parse_args()
    figures: list[Figure] = []
    data: dict[str, Any] = {"python": platform.python_version()}
    if options.only in ("all", "core"):
        from envweave.bench import core

        found, data["measured"] = core.measure(options.rounds)
        figures += found
    if options.only in ("all", "wire"):
        from envweave.bench.wire import run  # uvloop and msgspec, which the others do without

        figures += run.measure(2 * options.rounds)  # a round is two slices of less than half a second
    if options.only in ("all", "sandbox"):
        from envweave.bench.sandbox import run as sandbox  # Linux

        figures += sandbox.measure(options.rounds, image=options.image)
    if options.only in ("all", "code"):
        from envweave.bench import code  # Linux

        figures += code.measure(options.rounds)
    if options.only in ("all", "containers"):
        from envweave.bench.containers import run as containers

        figures += containers.measure(options.rounds, image=options.env_image)
    data["figures"] = [figure.to_data() for figure in figures]
    options.out.write_text(json.dumps(data, indent=2) + "\n")
    show(figures)


if __name__ == "__main__":
    main()

"""What training scripts share: flags with ranges, the folder of a run, its files, and exit codes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from rich.console import Console

import envweave as ew

Numbers: TypeAlias = Mapping[str, tuple[float | None, float, float, str]]
"""Flags: default, lowest, highest, meaning. The type of the highest is that of the flag."""


class Parser(argparse.ArgumentParser):
    """Raises `UsageError`. Options of a resumed run are its own, as far as they are not given anew."""

    def __init__(self, description: str | None, task: str, numbers: Numbers, fixed: Sequence[str]) -> None:
        """`fixed` are the options that a resumed run cannot change."""
        super().__init__(description=(description or "").partition("\n")[0], allow_abbrev=False)
        self._numbers, self._fixed = numbers, fixed
        for flag, (default, low, high, meaning) in numbers.items():
            self.add_argument(flag, type=type(high), default=default, help=f"{meaning} ({low} to {high}; {default})")
        self.add_argument("--plot", action=argparse.BooleanOptionalAction, default=True, help="draw metrics.png")
        self.add_argument("--run-dir", type=Path, help=f"a new directory (runs/{task}/<utc>)")
        self.add_argument("--resume", type=Path, metavar="DIR", help="continue the run in DIR")

    def error(self, message: str) -> NoReturn:
        raise ew.UsageError(message, "--help lists the flags")

    def read(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """The options. Raises `UsageError` for those out of range."""
        options = self.parse_args(argv)
        if options.resume is not None:
            saved = read(options.resume / "config.json")
            self.set_defaults(**saved)
            options = self.parse_args(argv)
            for key in self._fixed:
                if getattr(options, key) != saved.get(key):
                    message = f"{key} is {saved.get(key)} in {options.resume}"
                    raise ew.UsageError(message, "start a new run to change it")
        self._check(options)
        return options

    def _check(self, options: argparse.Namespace) -> None:
        for flag, (_, low, high, _) in self._numbers.items():
            value = getattr(options, flag[2:].replace("-", "_"))
            if value is not None and not low <= value <= high:
                raise ew.UsageError(f"{flag} is {value}", f"use a number from {low} to {high}")
        if options.resume is not None and options.run_dir is not None:
            raise ew.UsageError("--run-dir with --resume", "a resumed run stays in its directory")
        if options.plot and find_spec("matplotlib") is None:
            hint = "pip install 'envweave[train]', or --no-plot"
            raise ew.errors.UnavailableError("'matplotlib' is not installed", hint)


def new_folder(options: argparse.Namespace, task: str) -> Path:
    """Make the directory; where it exists the next free name is taken, so that no run is overwritten."""
    wanted = options.run_dir or Path("runs") / task / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder, number = wanted, 1
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                folder.mkdir()
                return Path(folder)
            except FileExistsError:
                number += 1
                folder = Path(f"{wanted.resolve()}-{number}")
    except OSError as error:
        message = f"cannot make the run folder {wanted}: {error.strerror}"
        raise ew.UsageError(message, "use --run-dir to choose another directory") from None


def write(path: Path, data: dict[str, Any]) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_text(json.dumps(data, indent=2) + "\n")
    draft.replace(path)


def write_config(folder: Path, options: argparse.Namespace) -> None:
    """The options, without those that say where the run is."""
    config = {key: value for key, value in vars(options).items() if key not in ("run_dir", "resume")}
    write(folder / "config.json", config)


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add a line to a JSONL file."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def read(path: Path) -> dict[str, Any]:
    """A JSON file of a run that is to be resumed. Raises `UsageError` without one."""
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, NotADirectoryError):
        raise cannot_resume(path.parent, f"it has no {path.name}") from None
    except (TypeError, ValueError) as error:
        raise cannot_resume(path.parent, f"{path.name} is damaged, {error}") from None


def trim(path: Path, count: int) -> list[dict[str, Any]]:
    """Cut a JSONL file down to so many lines and read them. Raises `ValueError` if there are fewer."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    if len(lines) < count:
        raise ValueError(f"{len(lines)} lines in {path.name}, not {count}")
    if len(lines) > count:
        os.truncate(path, sum(map(len, lines[:count])))
    return [json.loads(line) for line in lines[:count]]


def cannot_resume(folder: Path, reason: str) -> ew.UsageError:
    return ew.UsageError(f"cannot resume {str(folder)!r}: {reason}", "--resume takes the directory of a run")


def plot(path: Path, rows: Sequence[Mapping[str, Any]], x: str, keys: Sequence[str]) -> None:
    """Draw four columns of the metrics."""
    from matplotlib.figure import Figure  # slow to load; a figure without pyplot is drawn by Agg and opens no window

    figure = Figure(figsize=(9, 6), layout="constrained")
    for axes, key in zip(figure.subplots(2, 2).flat, keys, strict=True):
        points = [(row[x], row[key]) for row in rows if row.get(key) is not None]
        axes.plot(*zip(*points, strict=True) if points else ([], []))
        axes.set(title=key.replace("_", " "), xlabel=x)
    figure.savefig(path, dpi=120)


def curve(values: Sequence[float], console: Console) -> str:
    """Numbers from 0 to 1 as one line of text."""
    levels = "▁▂▃▄▅▆▇█" if "utf" in console.encoding.lower() else "_.:-=+*#"
    count = min(40, len(values))
    parts = [values[len(values) * n // count : len(values) * (n + 1) // count] for n in range(count)]
    return "".join(levels[round(sum(part) / len(part) * (len(levels) - 1))] for part in parts)


def exit_code(run: Callable[[], int]) -> int:
    """Run a script: 0 success, 1 an environment failed, 2 usage, 130 Ctrl-C. Errors are two lines."""
    try:
        return run()
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"cannot use {error.filename}: {error.strerror}\nhint: --run-dir names another place", file=sys.stderr)
        return 2
    except ew.EnvWeaveError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ew.UsageError) else 1

"""`envweave rescore RUN --rubric module:name`: score stored episodes again, without running anything."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.table import Table

from envweave.cli.options import AsJSON, RunFolder, out, print_json
from envweave.core.lookup import load
from envweave.errors import UnsupportedError
from envweave.record import Record, Recorder
from envweave.record.rescore import rescore as rescore_episode


def rescore(
    run: RunFolder,
    rubric: Annotated[str, typer.Option(help="module:name or ./file.py:name of a Rubric or RewardTransform.")],
    over: Annotated[str, typer.Option(help="`step`, as `env.transform` does, or `episode` for trajectories.")] = "step",
    to: Annotated[str | None, typer.Option(metavar="FOLDER", help="Write the episodes to a new record.")] = None,
    as_json: AsJSON = False,
) -> int:
    """Apply a rubric to stored episodes; prints returns before and after. Exit code 1 if an episode was refused."""
    chosen = load(rubric)
    chosen = chosen() if isinstance(chosen, type) else chosen
    rows: list[dict[str, Any]] = []
    with nullcontext() if to is None else Recorder(to) as recorder:
        for episode in Record(run):
            try:
                found = rescore_episode(episode, chosen, over=over)
            except UnsupportedError as error:
                rows.append({"episode": episode.id, "refused": error.message})
                continue
            rows.append({"episode": episode.id, "before": found.before, "after": found.after, "parts": found.parts})
            if recorder is not None:
                found.events[0]["rescored"] = {"from": run, "rubric": rubric}
                recorder.add(found.events)
    if as_json:
        print_json(rows)
    else:
        _show(rows)
    return int(any("refused" in row for row in rows))


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table("episode", "before", "after", "", box=None, pad_edge=False)
    for row in rows:
        parts = ", ".join(f"{name} {_number(value)}" for name, value in row.get("parts", {}).items())
        table.add_row(row["episode"], _number(row.get("before")), _number(row.get("after")), row.get("refused", parts))
    out.print(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

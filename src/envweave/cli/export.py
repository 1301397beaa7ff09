"""`envweave export RUN --to FORMAT OUT`: write a record in the format of another tool."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from envweave.cli.options import Format, RunFolder
from envweave.core.lookup import load
from envweave.record import Record


def export(
    run: RunFolder,
    out: Annotated[str, typer.Argument(help="A folder (atif, parquet), a file (messages) or a dataset (minari).")],
    to: Annotated[Format, typer.Option(help="The format.")],
    min_reward: Annotated[float | None, typer.Option(help="messages: leave out episodes with a lower return.")] = None,
    best_of_group: Annotated[bool, typer.Option(help="messages: only the best episode of each group.")] = False,
    keep_unscored: Annotated[bool, typer.Option(help="minari: also episodes without a score.")] = False,
) -> None:
    """Write the episodes of a record in another format."""
    options: dict[str, Any] = {}
    if to is Format.messages:
        options = {"min_reward": min_reward, "best_of_group": best_of_group}
    elif to is Format.minari:
        options = {"keep_unscored": keep_unscored}
    count = load(f"envweave.record.{to.value}:export_{to.value}")(Record(run), out, **options)
    print(f"{count} episodes written to {out}")

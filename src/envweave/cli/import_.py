"""`envweave import SOURCE --from FORMAT RUN`: add what another tool has written to a record."""

from __future__ import annotations

from typing import Annotated

import typer

from envweave.cli.options import Format, RunFolder
from envweave.core.lookup import load
from envweave.record import Recorder


def import_(
    source: Annotated[str, typer.Argument(help="A file or folder (atif), a file (messages), a folder or a dataset.")],
    run: RunFolder,
    of: Annotated[Format, typer.Option("--from", help="The format.")],
) -> None:
    """Add episodes in another format to a record."""
    read = load(f"envweave.record.{of.value}:import_{of.value}")
    with Recorder(run) as recorder:
        count = read(source, recorder)
    print(f"{count} episodes added to {run}")

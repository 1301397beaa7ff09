"""`envweave init NAME`: begin an environment of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from envweave.cli.options import out
from envweave.scaffold.name import names_of
from envweave.scaffold.write import write_project


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="e.g. my_env")],
    path: Annotated[str, typer.Option(help="The folder of the project, new or empty; else ./NAME.")] = "",
) -> None:
    """Write a project with a small environment that works: code, test, README, pyproject.toml."""
    names = names_of(name)
    folder = Path(path or name)
    for written in write_project(names, folder):
        out.print(Text.assemble(("✓ ", "green"), str(written)), soft_wrap=True)
    out.print(Text(f"next: cd {folder} && envweave check pkg://{names.module}:{names.stem}Env"), soft_wrap=True)

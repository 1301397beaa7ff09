"""`envweave init NAME`: start a project for an environment of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from envweave.cli.options import out
from envweave.scaffold.names import derive_names
from envweave.scaffold.project import write_project


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="e.g. my_env")],
    path: Annotated[str, typer.Option(help="The folder of the project, new or empty. Default: ./NAME.")] = "",
) -> None:
    """Write a project with a small working environment: code, test, README, pyproject.toml."""
    names = derive_names(name)
    folder = Path(path or name)
    for written in write_project(names, folder):
        out.print(Text.assemble(("✓ ", "green"), str(written)), soft_wrap=True)
    out.print(Text(f"next: cd {folder} && envweave check pkg://{names.module}:{names.class_prefix}Env"), soft_wrap=True)

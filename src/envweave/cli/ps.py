"""`envweave ps`: list the servers and sandboxes that envweave has started."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from envweave.cli.options import AsJSON, out, print_json
from envweave.cli.resources import Kubernetes, Namespace, list_resources


def ps(
    kubernetes: Kubernetes = False,
    namespace: Namespace = None,
    strays: Annotated[bool, typer.Option("--strays", help="Only those whose owner has ended.")] = False,
    as_json: AsJSON = False,
) -> None:
    """List the processes, containers and pods that envweave has started, and their owners."""
    found = [each for each in list_resources(kubernetes, namespace) if each.stray or not strays]
    if as_json:
        print_json([each.to_data() for each in found])
        return
    if not found:
        out.print("nothing is running")
        return
    table = Table(box=None, pad_edge=False)
    for title in ("where", "name", "what", "url", "state", "owner", "since"):
        table.add_column(title, overflow="fold")
    for each in found:
        owner = Text(f"{each.owner}, ended", "red") if each.stray else Text(each.owner)
        cells = (each.where, each.name, each.what, each.url, each.state)
        table.add_row(*(Text(_plain(cell)) for cell in cells), owner, Text(each.since[:19]))
    out.print(table, soft_wrap=True)


def _plain(text: str) -> str:
    """Without control characters, which could move the cursor."""
    return "".join(character if character.isprintable() else "?" for character in text)

"""`envweave ps`: what envweave has started, wherever it runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from envweave.cli.options import AsJSON, out, print_json
from envweave.cli.strays import Kubernetes, Namespace, started


def ps(
    kubernetes: Kubernetes = False,
    namespace: Namespace = None,
    strays: Annotated[bool, typer.Option("--strays", help="Only what has lost its owner.")] = False,
    as_json: AsJSON = False,
) -> None:
    """List the processes, containers and pods that envweave has started, and who owns them."""
    found = [each for each in started(kubernetes, namespace) if each.stray or not strays]
    if as_json:
        print_json([each.to_data() for each in found])
        return
    if not found:
        out.print("nothing runs")
        return
    table = Table("where", "name", "what", "url", "state", "owner", "since", box=None, pad_edge=False)
    for each in found:
        owner = f"[red]{each.owner}, gone[/]" if each.stray else each.owner
        table.add_row(each.where, each.name, each.what, each.url, each.state, owner, each.since[:19])
    out.print(table, soft_wrap=True)

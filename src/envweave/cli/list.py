"""`envweave list`: list the environments that can be made by name."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from envweave.cli.options import AsJSON, out, print_json
from envweave.registry.make import registry


def list(as_json: AsJSON = False) -> None:
    """List the environments that can be made by name."""
    found = registry()
    if as_json:
        print_json([spec.to_data() for spec in found.values()])
        return
    table = Table("ID", "source", "description", box=None, pad_edge=False)
    for name, spec in found.items():
        table.add_row(*map(Text, (name, f"{spec.source} {spec.version}".strip(), spec.description)))
    out.print(table)

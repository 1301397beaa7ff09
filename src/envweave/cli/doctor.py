"""`envweave doctor`: how well can this machine isolate untrusted code?"""

from __future__ import annotations

from rich.text import Text

from envweave.cli.options import AsJSON, out, print_json
from envweave.sandbox import Sandbox


def doctor(as_json: AsJSON = False) -> int:
    """Show how the sandbox isolates untrusted code on this machine; exit code 1 if it cannot."""
    with Sandbox() as sandbox:
        report = sandbox.report()
    code = 0 if report.isolation in ("namespace", "landlock") else 1
    if as_json:
        print_json(report.to_data())
        return code
    out.print(Text.assemble("isolation: ", (report.isolation, "bold"), f" ({report.why})"))
    width = max(len(layer.name) for layer in report.layers)
    for layer in report.layers:
        mark, colour = ("✓ ", "green") if layer.on else ("- ", "yellow")
        out.print(Text.assemble((mark, colour), f"{layer.name:{width}}  ", (layer.why, "dim")))
    return code

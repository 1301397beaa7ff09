"""`envweave check ID`: does an environment keep the contract?"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from envweave.cli.options import Arguments, AsJSON, EnvName, keyword_arguments, out, own_output, print_json
from envweave.testing import check_env


def check(
    id: EnvName,
    seed: Annotated[int, typer.Option()] = 0,
    arg: Arguments = None,
    as_json: AsJSON = False,
) -> int:
    """Check that an environment keeps the contract; 1 if it does not, with a fix for each finding."""
    with own_output(as_json):
        report = check_env(id, seed=seed, **keyword_arguments(arg))
    if as_json:
        print_json(report.to_data())
        return 0 if report.ok else 1
    for name in report.passed:
        out.print(Text.assemble(("✓ ", "green"), name))
    for name, reason in dict(report.skipped).items():
        out.print(Text.assemble(("- ", "dim"), f"{name}: skipped, {reason}"))
    for finding in report.findings:
        mark, colour = ("✗ ", "red") if finding.severity == "error" else ("! ", "yellow")
        out.print(Text.assemble((mark, colour), f"{finding.check}: {finding.message}"))
        out.print(Text(f"  fix: {finding.fix}"))
    return 0 if report.ok else 1

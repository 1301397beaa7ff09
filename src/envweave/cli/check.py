"""`envweave check ID`: check that an environment keeps the contract."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from envweave.cli.options import Arguments, AsJSON, EnvName, keyword_arguments, out, own_output, print_json
from envweave.core.handle import EnvHandle
from envweave.registry.make import make, spec
from envweave.testing import Report, check_env


def check(
    id: EnvName,
    seed: Annotated[int, typer.Option(help="The seed of the first episode.")] = 0,
    episodes: Annotated[int, typer.Option("-n", "--episodes", min=1, help="Random episodes to play.")] = 3,
    max_steps: Annotated[int, typer.Option(min=1, help="Stop an episode after this many steps.")] = 1000,
    arg: Arguments = None,
    as_json: AsJSON = False,
) -> int:
    """Check that an environment keeps the contract; exit code 1 if not, with a fix for each finding."""
    arguments = keyword_arguments(arg)
    options: dict[str, Any] = {"seed": seed, "episodes": episodes, "max_steps": max_steps}
    with own_output(as_json):
        found = spec(id)
        if found.url or found.image:
            report = _check_server(id, arguments, options)
        else:
            report = check_env(id, **options, **arguments)
    if as_json:
        print_json(report.to_data())
    else:
        _show(report)
    return 0 if report.ok else 1


def _check_server(id: str, arguments: dict[str, Any], options: dict[str, Any]) -> Report:
    """Check what clients of a server see. Raises the error of a server that cannot be reached."""

    def connect() -> EnvHandle[Any]:
        return make(id, **arguments)

    connect.__name__ = id  # the name in the report
    connect().close()
    return check_env(connect, **options)


def _show(report: Report) -> None:
    for name in report.passed:
        out.print(Text.assemble(("✓ ", "green"), name))
    for name, reason in dict(report.skipped).items():
        out.print(Text.assemble(("- ", "dim"), f"{name}: skipped, {reason}"))
    for finding in report.findings:
        mark, colour = ("✗ ", "red") if finding.severity == "error" else ("! ", "yellow")
        out.print(Text.assemble((mark, colour), f"{finding.check}: {finding.message}"))
        out.print(Text(f"  fix: {finding.fix}"))

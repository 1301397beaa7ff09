"""`envweave gc`: remove what was left behind by processes that were killed."""

from __future__ import annotations

from typing import Annotated

import typer

from envweave.cli.options import AsJSON, out, print_json
from envweave.cli.strays import Kubernetes, Namespace, started
from envweave.errors import EnvWeaveError


def gc(
    kubernetes: Kubernetes = False,
    namespace: Namespace = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what still has its owner, or one on another machine.")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Say what would be removed, and leave it.")] = False,
    as_json: AsJSON = False,
) -> int:
    """Remove what envweave has started and nobody owns any more; 1 if something could not be removed."""
    chosen = [each for each in started(kubernetes, namespace) if each.stray or everything]
    removed, failed = [], []
    for each in chosen:
        try:
            if not dry_run:
                each.remove()
            removed.append(each)
        except EnvWeaveError as error:
            failed.append((each, error.message))
    if as_json:
        print_json({"removed": [each.to_data() for each in removed], "failed": [each.name for each, _ in failed]})
        return 1 if failed else 0
    for each in removed:
        done = "would remove" if dry_run else "removed"
        out.print(f"{done} {each.where} {each.name} ({each.what!r})", highlight=False, markup=False, soft_wrap=True)
    for each, reason in failed:
        out.print(f"cannot remove {each.where} {each.name}: {reason}", highlight=False, markup=False)
    if not chosen:
        out.print("no strays")
    return 1 if failed else 0

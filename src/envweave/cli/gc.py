"""`envweave gc`: remove what killed processes left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from envweave.cli.options import AsJSON, out, print_json
from envweave.cli.resources import Kubernetes, Namespace, list_resources
from envweave.errors import EnvWeaveError


def gc(
    kubernetes: Kubernetes = False,
    namespace: Namespace = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also remove what has an owner, here or on another machine.")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what would be removed, and remove nothing.")] = False,
    as_json: AsJSON = False,
) -> int:
    """Remove servers and sandboxes whose owner has ended; exit code 1 if one could not be removed."""
    chosen = [each for each in list_resources(kubernetes, namespace) if each.stray or everything]
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
        out.print("nothing to remove")
    return 1 if failed else 0

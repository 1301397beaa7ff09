"""What `ps` and `gc` look through: processes always, Docker where it is, a cluster where it is asked for."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from envweave.core.lookup import load
from envweave.errors import ProviderError, UnavailableError
from envweave.providers.started import Started

Kubernetes = Annotated[bool, typer.Option("--kubernetes", "-k", help="Look into the cluster of your kubeconfig too.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Of the cluster; `all` is all of them.", show_default="its own")
]


def started(kubernetes: bool, namespace: str | None) -> list[Started]:
    """All that can be seen. Docker that is not here is passed over; a cluster that was asked for must answer."""
    found: list[Started] = load("envweave.providers.process:found")()
    try:
        found += load("envweave.providers.docker:found", extra="docker")()
    except UnavailableError:
        pass
    except ProviderError as error:
        print(f"note: containers are not shown: {error.message}", file=sys.stderr)
    if kubernetes or namespace is not None:
        found += load("envweave.providers.kubernetes:found", extra="kubernetes")(namespace=namespace)
    return found

"""What `ps` and `gc` work on: processes and containers, and the pods of a cluster if requested."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from envweave.core.lookup import load
from envweave.errors import ProviderError, UnavailableError
from envweave.providers.resource import Resource

Kubernetes = Annotated[bool, typer.Option("--kubernetes", "-k", help="Include the cluster of your kubeconfig.")]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="The namespace; `all` means all of them.", show_default="the kubeconfig's"),
]


def list_resources(kubernetes: bool, namespace: str | None) -> list[Resource]:
    """All servers and sandboxes that can be found. A missing Docker is skipped; a requested cluster must answer."""
    found: list[Resource] = load("envweave.providers.process:list_processes")()
    try:
        found += load("envweave.providers.docker:list_containers", extra="docker")()
    except UnavailableError:
        pass
    except ProviderError as error:
        print(f"note: containers are not shown: {error.message}", file=sys.stderr)
    if kubernetes or namespace is not None:
        found += load("envweave.providers.kubernetes:list_workloads", extra="kubernetes")(namespace=namespace)
    return found

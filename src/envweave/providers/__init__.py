"""Where servers run: in a process, under uv, in a container, on a cluster. Each provider starts one and ends it.

Importing this is cheap: what a provider needs is loaded with the provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envweave.core.lookup import load
from envweave.providers.base import Provider, running

if TYPE_CHECKING:
    from envweave.providers.docker import LocalDockerProvider
    from envweave.providers.kubernetes import KubernetesProvider
    from envweave.providers.subprocess import SubprocessProvider
    from envweave.providers.uv import UVProvider

__all__ = ["KubernetesProvider", "LocalDockerProvider", "Provider", "SubprocessProvider", "UVProvider", "running"]

_HERE = "envweave.providers"
_PROVIDERS = {
    "KubernetesProvider": (f"{_HERE}.kubernetes:KubernetesProvider", "kubernetes"),
    "LocalDockerProvider": (f"{_HERE}.docker:LocalDockerProvider", "docker"),
    "SubprocessProvider": (f"{_HERE}.subprocess:SubprocessProvider", ""),
    "UVProvider": (f"{_HERE}.uv:UVProvider", ""),
}


def __getattr__(name: str) -> Any:
    if name in _PROVIDERS:
        target, extra = _PROVIDERS[name]
        return load(target, extra=extra)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

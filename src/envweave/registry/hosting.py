"""Backends that run environments on a server of their own: from a spec to the provider that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from envweave.core.lookup import address, load
from envweave.core.spec import EnvSpec
from envweave.errors import UsageError

if TYPE_CHECKING:
    from envweave.providers.base import Provider

BACKENDS = {
    "docker_http": ("envweave.providers.docker:LocalDockerProvider", "docker"),
    "kubernetes": ("envweave.providers.kubernetes:KubernetesProvider", "kubernetes"),
    "subprocess": ("envweave.providers.subprocess:SubprocessProvider", ""),
}
"""By name: the provider, and the extra that it comes in."""


def provider_for(spec: EnvSpec, backend: str, image: str | None, options: Mapping[str, Any] | None) -> Provider:
    """A provider that is yet to start. `options` are the provider's own."""
    target, extra = BACKENDS[backend]
    kind = load(target, extra=extra)
    given = dict(options or {})
    given["env_vars"] = {**load("envweave.providers.base:ALONE"), **(given.get("env_vars") or {})}
    if backend == "subprocess":
        if image:
            raise UsageError("an image does not run in a process", "backend='docker_http' runs images")
        return kind(_servable(spec), **given)  # type: ignore[no-any-return]
    return kind(image or spec.image or f"envweave-{spec.id}:latest", **given)  # type: ignore[no-any-return]


def _servable(spec: EnvSpec) -> str:
    """The name by which another process of this machine finds the environment."""
    if spec.image:
        raise UsageError(f"{spec.id} is an image", "backend='docker_http' runs images")
    if spec.source not in ("local", "pkg") or not spec.factory:
        return spec.id
    place = spec.factory if isinstance(spec.factory, str) else address(spec.factory)
    if place is None or place.startswith("__main__:"):
        hint = "put it into a module and name it pkg://module:Class"
        raise UsageError(f"{spec.id!r} is known to this process only, another cannot import it", hint)
    return f"pkg://{place}"

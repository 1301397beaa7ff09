"""Where an environment runs: in this process, or on servers that are started for it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

from envweave.core.ids import image_name
from envweave.core.lookup import address, load
from envweave.core.spec import EnvSpec
from envweave.core.suggest import nearest, refuse_unknown
from envweave.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from envweave.client.managed_server import ManagedServer
    from envweave.providers.base import Provider

SERVERS = {
    "docker": ("envweave.providers.docker:LocalDockerProvider", "docker"),
    "kubernetes": ("envweave.providers.kubernetes:KubernetesProvider", "kubernetes"),
    "subprocess": ("envweave.providers.subprocess:SubprocessProvider", "client"),
}
"""Backends with a server of their own, by name: the provider, and the extra that it needs."""

ALIASES = {"docker_http": "docker"}
"""Other names of backends."""

EXPECTED = ("process", "async", "ray")
"""Backends that a later version will have."""


class ServerFactory:
    """Makes the servers of one environment. They have a single client, which knows their token."""

    def __init__(self, spec: EnvSpec, backend: str, image: str | None, options: Mapping[str, Any] | None) -> None:
        from envweave.providers.base import TOKEN, single_client_variables

        if not isinstance(options, Mapping | None):
            raise UsageError(f"provider_options is a {type(options).__name__}", "use a dict")
        target, extra = SERVERS[backend]
        self._provider = load(target, extra=extra)
        self._what = _servable(spec, image) if backend == "subprocess" else image or spec.image or _image_of(spec)
        variables = single_client_variables((options or {}).get("env_vars"))
        self._options = {**(options or {}), "env_vars": variables}
        self.token = variables[TOKEN]
        _check_options(backend, self._provider, self._options)

    def provider(self) -> Provider:
        """One more server, not started yet."""
        return self._provider(self._what, **self._options)  # type: ignore[no-any-return]


class SharedServer:
    """One server for many handles, if their backend needs one. It ends with `release`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._managed: ManagedServer | None = None
        self._token = ""

    def of(self, factory: ServerFactory) -> tuple[ManagedServer, str]:
        """The server and its token. The first call makes the server, which starts with the first connection."""
        with self._lock:
            if self._managed is None:
                self._managed = load("envweave.client.managed_server:ManagedServer", extra="client")(factory.provider())
                self._token = factory.token
                self._managed.acquire()  # it stays while there are no handles
            return self._managed, self._token

    async def release(self) -> None:
        with self._lock:
            managed, self._managed = self._managed, None
        if managed is not None:
            await managed.release()


def chosen_backend(spec: EnvSpec, backend: str, local: tuple[str, ...]) -> str:
    """The backend asked for, or the spec's own; empty leaves the choice among `local` to the caller."""
    backend = ALIASES.get(backend, backend)
    known = ("auto", *local, *SERVERS)
    if backend in EXPECTED:
        raise UnavailableError(
            f"the backend {backend!r} is not in this version of envweave", "it needs a later release"
        )
    if backend not in known:
        near = nearest(str(backend), known)
        hint = f"did you mean {near!r}?" if near else f"backends: {', '.join(known)}"
        raise UsageError(f"no backend named {backend!r}", hint)
    if backend == "auto":
        return spec.backend
    if spec.url:
        hint = "leave out backend; `envweave serve` has options for the same"
        raise UsageError(f"{spec.url} is a server, which decides where its environments run", hint)
    if spec.image and backend in (*local, "subprocess"):
        raise UsageError(f"{spec.id} is an image, which does not run {backend!r}", "leave out backend")
    return backend


def server_for(
    spec: EnvSpec, backend: str, image: str | None = None, options: Mapping[str, Any] | None = None
) -> ServerFactory | None:
    """None for a backend in this process and for a URL; then an image or provider options are a `UsageError`."""
    if backend in SERVERS:
        return ServerFactory(spec, backend, image, options)
    if image is not None or options is not None:
        raise UsageError("an image, or options of a provider, but no server to start", "add backend='docker'")
    return None


def _check_options(backend: str, provider: Any, options: Mapping[str, Any]) -> None:
    """Those that a provider takes by name; what it takes besides, it checks itself."""
    parameters = list(signature(provider).parameters.values())
    names = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    if parameters[0].name in options:
        raise UsageError(f"{backend!r} has no option {parameters[0].name!r}", "the ID and docker_image=… say what runs")
    if names:
        refuse_unknown(options, names, f"{backend!r} has no option", "options")


def _image_of(spec: EnvSpec) -> str:
    """The tag that `envweave build` gives."""
    return image_name(f"envweave-{spec.id}")


def _servable(spec: EnvSpec, image: str | None) -> str:
    """The name by which another process of this machine finds the environment."""
    if image is not None:
        raise UsageError("an image does not run in a process", "backend='docker' runs images")
    if spec.source not in ("local", "pkg"):
        return spec.id
    place = spec.factory if isinstance(spec.factory, str) else address(spec.factory)
    if place is None or place.startswith("__main__:"):
        hint = "put it into a module and name it pkg://module:Class"
        raise UsageError(f"{spec.id!r} is known to this process only, another cannot import it", hint)
    return place if place.partition(":")[0].endswith(".py") else f"pkg://{place}"

"""The way from an ID to a spec: one resolver for each scheme, and the order for bare names."""

from __future__ import annotations

from functools import cache

from envweave.core.ids import EnvID
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.core.suggest import nearest
from envweave.errors import EnvNotFoundError, UnavailableError, VersionError
from envweave.registry.resolvers.base import Resolver

_HERE = "envweave.registry.resolvers"

RESOLVERS = {
    "local": f"{_HERE}.local:LOCAL",
    "ep": f"{_HERE}.entry_points:EntryPointResolver",
    "pkg": f"{_HERE}.package:PackageResolver",
    "docker": f"{_HERE}.image:DockerResolver",
    "hf": f"{_HERE}.image:HubResolver",
    "k8s": f"{_HERE}.image:KubernetesResolver",
    "openenv": f"{_HERE}.image:HubResolver",
    "http": f"{_HERE}.remote:RemoteResolver",
    "https": f"{_HERE}.remote:RemoteResolver",
    "ws": f"{_HERE}.remote:RemoteResolver",
    "wss": f"{_HERE}.remote:RemoteResolver",
}
"""By scheme. Other packages add theirs under the entry point group `envweave.resolvers`."""

EXPECTED = {
    "prime": "prime",
    "gym": "gym",
    "pettingzoo": "gym",
}
"""Schemes of the design that this version has no resolver for, with the extra each will come in."""

BARE = ("local", "ep")
"""Where a bare name is looked for, in this order."""


def resolve(id: EnvID) -> EnvSpec:
    """The spec of an ID. An unknown name suggests the nearest; a version is honoured or refused."""
    if id.scheme:
        try:
            return resolver(id.scheme).resolve(id)
        except EnvNotFoundError as error:
            raise EnvNotFoundError(error.message, error.hint or _suggestion(id.locator, (id.scheme,))) from None
    refused: VersionError | None = None
    for scheme in BARE:
        try:
            return resolver(scheme).resolve(id)
        except VersionError as error:
            refused = refused or error
        except EnvNotFoundError:
            continue
    raise refused or EnvNotFoundError(f"no environment named {id.locator!r}", _suggestion(id.locator, BARE))


@cache
def resolver(scheme: str) -> Resolver:
    """Raises `UnavailableError` for a scheme nobody here knows."""
    found = load(RESOLVERS[scheme]) if scheme in RESOLVERS else _from_plugin(scheme)
    return found() if isinstance(found, type) else found


def _from_plugin(scheme: str) -> Resolver | type[Resolver]:
    from envweave.registry.resolvers.entry_points import loaded, offered  # importlib.metadata: not for local names

    points = offered("envweave.resolvers")
    if scheme in points:
        return loaded(points[scheme])  # type: ignore[no-any-return]
    if scheme in EXPECTED:
        hint = f"needs a later release: pip install --upgrade 'envweave[{EXPECTED[scheme]}]'"
        raise UnavailableError(f"{scheme}:// environments are not in this version of envweave", hint)
    known = [*RESOLVERS, *points, *EXPECTED]
    near = nearest(scheme, known)
    hint = f"did you mean '{near}://'?" if near else f"schemes: {', '.join(known)}"
    raise UnavailableError(f"no resolver for {scheme}://", hint)


def _suggestion(name: str, schemes: tuple[str, ...]) -> str:
    known = sorted({known for scheme in schemes for known in resolver(scheme).names()})
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else "run `envweave list` to see what is there"

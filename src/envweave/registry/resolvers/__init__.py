"""From an ID to a spec: one resolver for each scheme, and the order in which bare names are looked up."""

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
    "file": f"{_HERE}.file:FileResolver",
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

LATER = {
    "prime": "needs a later release",
    "gym": "make it yourself and adapt it: ew.adapt(gymnasium.make('CartPole-v1'))",
    "pettingzoo": "make it yourself and adapt it: ew.adapt(tictactoe_v3.env())",
}
"""Schemes that this version has no resolver for, with what to do instead."""

BARE = ("local", "ep")
"""Where a bare name is looked up, in this order."""


def resolve(id: EnvID) -> EnvSpec:
    """The spec of an ID. Raises `EnvNotFoundError` with a suggestion for an unknown name."""
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
    """Raises `UnavailableError` for an unknown scheme."""
    found = load(RESOLVERS[scheme]) if scheme in RESOLVERS else _from_plugin(scheme)
    return found() if isinstance(found, type) else found


def _from_plugin(scheme: str) -> Resolver | type[Resolver]:
    from envweave.registry.resolvers.entry_points import loaded, offered  # importlib.metadata: not for local names

    points = offered("envweave.resolvers")
    if scheme in points:
        return loaded(points[scheme])  # type: ignore[no-any-return]
    if scheme in LATER:
        raise UnavailableError(f"{scheme}:// environments are not in this version of envweave", LATER[scheme])
    known = [*RESOLVERS, *points, *LATER]
    near = nearest(scheme, known)
    hint = f"did you mean '{near}://'?" if near else f"schemes: {', '.join(known)}"
    raise UnavailableError(f"no resolver for {scheme}://", hint)


def _suggestion(name: str, schemes: tuple[str, ...]) -> str:
    from envweave.registry.resolvers.suggestions import instead_of, module_form  # only for names that are not found

    if schemes == BARE and (hint := instead_of(name)):
        return hint
    known = sorted({known for scheme in schemes for known in resolver(scheme).names()})
    near = nearest(name, known)
    if near:
        return f"did you mean {near!r}?"
    return (schemes == BARE and module_form(name)) or "run `envweave list` to see all names"

"""`ep://name`: environments that installed packages list under the entry point group `envweave.envs`.

The built-in environments are found the same way: envweave's own `pyproject.toml` lists them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from envweave.core.ids import EnvID
from envweave.core.spec import EnvSpec
from envweave.errors import EnvNotFoundError, UnavailableError, VersionError, describe
from envweave.registry.resolvers.base import Resolver

GROUP = "envweave.envs"


@cache
def offered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name. Read once: a package that is installed later needs a new process."""
    return {point.name: point for point in entry_points(group=group)}


class EntryPointResolver(Resolver):
    """A target is a class, a function that makes an environment, or an `EnvSpec`."""

    def resolve(self, id: EnvID) -> EnvSpec:
        point = offered(GROUP).get(id.locator)
        if point is None:
            raise EnvNotFoundError(f"no environment named {id.locator!r}")
        package = point.dist.name if point.dist else ""
        version = point.dist.version if point.dist else ""
        check_version(id, version, package)
        return spec_of(loaded(point), id=id.locator, version=version, source=package, target=point.value)

    def names(self) -> Iterable[str]:
        return list(offered(GROUP))


def loaded(point: EntryPoint) -> Any:
    """The object behind an entry point. Raises `UnavailableError` for whatever its package raises when imported."""
    package = point.dist.name if point.dist else "its package"
    try:
        return point.load()
    except UnavailableError:  # says already what is missing
        raise
    except ModuleNotFoundError as error:
        message = f"{point.name!r} of {package} cannot be loaded: {error.name!r} is not installed"
        raise UnavailableError(message, f"install {package} with the extra that it needs") from None
    except Exception as error:  # a plugin may raise anything
        message = f"{point.name!r} of {package} cannot be loaded: {describe(error)}"
        raise UnavailableError(message, f"look at {point.value!r} in {package}") from error


def check_version(id: EnvID, installed: str, package: str) -> None:
    """Raise `VersionError` unless the version in the ID is installed, or a later one of it (`1.2` accepts 1.2.5)."""
    if id.version and installed != id.version and not installed.startswith(f"{id.version}."):
        there = f"version {installed} of {package} is installed" if installed else "its version is unknown"
        raise VersionError(f"{id.name!r} is not available: {there}", f"install {id.version}, or leave out the version")


def spec_of(found: Any, *, id: str, version: str, source: str, target: str) -> EnvSpec:
    """A spec for something importable that makes environments."""
    if isinstance(found, EnvSpec):
        return replace(found, id=id, version=found.version or version, source=source)
    description = inspect.cleandoc(found.__doc__ or "").partition("\n")[0]
    factory = found if callable(found) else target
    return EnvSpec(id=id, factory=factory, version=version, source=source, description=description)

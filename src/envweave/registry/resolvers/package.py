"""`pkg://module:attribute`: import and call."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from envweave.core.ids import EnvID
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.errors import EnvNotFoundError, InvalidIDError, UnavailableError, UsageError
from envweave.registry.resolvers.base import Resolver
from envweave.registry.resolvers.entry_points import check_version, spec_of


class PackageResolver(Resolver):
    """The version, if any, is that of the distribution the module belongs to."""

    def resolve(self, id: EnvID) -> EnvSpec:
        module, colon, attribute = id.locator.partition(":")
        if not (module and colon and attribute):
            raise InvalidIDError(
                f"'pkg://{id.locator}' has no attribute", "pkg://module:Class or pkg://module:function"
            )
        try:
            found = load(id.locator)
        except UnavailableError as error:
            raise EnvNotFoundError(error.message, error.hint) from error
        if not callable(found) and not isinstance(found, EnvSpec):
            raise UsageError(f"'pkg://{id.locator}' is a {type(found).__name__}, not a class or function")
        if id.version:
            package = _distribution(module.partition(".")[0])
            check_version(id, _version(package), package or module)
        return spec_of(found, id=id.locator, version=id.version, source="pkg", target=id.locator)


def _distribution(module: str) -> str:
    """The distribution a top-level module belongs to; one that is installed for editing has the module's name."""
    if module in sys.stdlib_module_names:
        return ""
    return next(iter(packages_distributions().get(module, ())), module)


def _version(package: str) -> str:
    try:
        return version(package) if package else ""
    except PackageNotFoundError:
        return ""

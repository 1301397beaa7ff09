"""`module:attribute`, `pkg://module:attribute`: import and call."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from os.path import isfile

from envweave.core.ids import EnvID
from envweave.core.lookup import distribution_name, load
from envweave.core.spec import EnvSpec
from envweave.errors import EnvNotFoundError, InvalidIDError, UnavailableError, UsageError
from envweave.registry.resolvers.base import Resolver
from envweave.registry.resolvers.entry_points import check_version, spec_of


class PackageResolver(Resolver):
    """A version in the ID is that of the distribution that the module belongs to."""

    def resolve(self, id: EnvID) -> EnvSpec:
        module, colon, attribute = id.locator.rpartition(":")
        if not (module and colon and attribute):
            raise InvalidIDError(f"'pkg://{id.locator}' has no attribute", _form(id.locator))
        try:
            found = load(id.locator)
        except UnavailableError as error:
            file = f"./{module.replace('.', '/')}.py"
            is_file = module not in sys.modules and isfile(file)
            hint = f"did you mean '{file}:{attribute}'?" if is_file else error.hint or "check the name of its class"
            raise EnvNotFoundError(error.message, hint) from None
        if not callable(found) and not isinstance(found, EnvSpec):
            raise UsageError(f"'pkg://{id.locator}' is a {type(found).__name__}, not a class or function")
        if id.version:
            package = distribution_name(module.partition(".")[0])
            check_version(id, _version(package), package or module)
        return spec_of(found, id=id.locator, version=id.version, source="pkg", target=id.locator)


def _form(module: str) -> str:
    from envweave.registry.resolvers.suggestions import instead_of  # only for names that are not found

    return instead_of(module) or "pkg://module:Class or pkg://module:function"


def _version(package: str) -> str:
    try:
        return version(package) if package else ""
    except PackageNotFoundError:
        return ""

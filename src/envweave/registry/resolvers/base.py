"""The contract of a resolver, which turns IDs of one scheme into specs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from envweave.core.ids import EnvID
from envweave.core.spec import EnvSpec


class Resolver(ABC):
    """Resolves the IDs of one scheme.

    Other packages add theirs under the entry point group `envweave.resolvers`, by the name of the scheme. A resolver is
    created without arguments when its scheme is first used.
    """

    @abstractmethod
    def resolve(self, id: EnvID) -> EnvSpec:
        """The spec of an ID of this scheme.

        Raises `EnvNotFoundError` for an unknown name, and `VersionError` for a version in the ID that is not available;
        a version is never ignored.
        """

    def names(self) -> Iterable[str]:
        """The names to show in suggestions and in `envweave list`."""
        return ()

"""What a resolver is: the way from an ID of one scheme to a spec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from envweave.core.ids import EnvID
from envweave.core.spec import EnvSpec


class Resolver(ABC):
    """Knows one scheme. A third party adds its own under the entry point group `envweave.resolvers`,

    by the name of the scheme; it is made without arguments when the scheme is first used.
    """

    @abstractmethod
    def resolve(self, id: EnvID) -> EnvSpec:
        """The spec of an ID of this scheme. A version in the ID is honoured or refused, never ignored.

        Raises `EnvNotFoundError` for a name it does not know, `VersionError` for a version it does not have.
        """

    def names(self) -> Iterable[str]:
        """The names this resolver could list, for suggestions and `envweave list`."""
        return ()

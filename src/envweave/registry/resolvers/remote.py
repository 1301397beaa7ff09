"""`http://…`, `https://…`, `ws://…`, `wss://…`: a running server."""

from __future__ import annotations

from envweave.core.ids import EnvID
from envweave.core.spec import EnvSpec
from envweave.registry.resolvers.base import Resolver


class RemoteResolver(Resolver):
    """The server is not contacted before the environment is made."""

    def resolve(self, id: EnvID) -> EnvSpec:
        url = f"{id.scheme}://{id.locator}"
        return EnvSpec(id=url, url=url, source=id.scheme, description="an environment on a server")

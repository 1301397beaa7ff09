"""What a client was told: where the server is, how long to wait, and which environment to open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from envweave.chat import Chat
from envweave.client.address import Address
from envweave.core.jsonable import to_sendable

if TYPE_CHECKING:
    from envweave.client.managed_server import ManagedServer

TOKEN_VARIABLE = "ENVWEAVE_TOKEN"  # noqa: S105  (the name of the variable, not a secret)

REFUSED_SHARE = 0.2
"""Of `connect_timeout_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEndpoint:
    """One server and how to talk to it."""

    address: Address
    managed: ManagedServer | None = None
    """A server that is started for us, and again when it is gone; its address is known only then."""
    index: int = 0
    """Which of the servers that `managed` starts."""
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_timeout_s: float = 10.0
    """For the first connection, and for finding a lost server again."""
    message_timeout_s: float | None = 60.0
    """For the reply to one call; None means no limit."""
    max_message_bytes: int = 100 * 1024 * 1024
    ping_interval_s: float | None = 20.0
    ping_timeout_s: float | None = 20.0

    @property
    def refused_timeout_s(self) -> float:
        """How long to try for the first connection while it is refused: a server that is being started needs a moment,
        but usually the address is wrong. A server that is started for us gets the whole `connect_timeout_s`.
        """
        return self.connect_timeout_s * (1.0 if self.managed is not None else REFUSED_SHARE)

    async def ensure_running(self) -> Self:
        """The endpoint with the address of a running server. Raises `ProviderError` if it cannot be started."""
        return self if self.managed is None else replace(self, address=await self.managed.ensure_running(self.index))

    async def check_alive(self) -> str:
        """Raise `ProviderError`, with the cause, if the server was started for us and is gone.

        Returns the reason if that cannot be told now, else an empty string.
        """
        return "" if self.managed is None else await self.managed.check_alive(self.address)

    @property
    def all_headers(self) -> dict[str, str]:
        """The caller's own headers, and the token's: the argument, else `ENVWEAVE_TOKEN`."""
        token = self.token if self.token is not None else os.environ.get(TOKEN_VARIABLE)
        return {**({"Authorization": f"Bearer {token}"} if token else {}), **self.headers}


def parse_target(target: Any) -> dict[str, Any]:
    """The `address` and `managed` of an endpoint: of a URL, of a provider, or of a server that is managed already."""
    if isinstance(target, str):
        return {"address": Address.parse(target)}
    from envweave.client.managed_server import ManagedServer
    from envweave.providers.base import Provider

    managed = ManagedServer(target) if isinstance(target, Provider) else target
    if not isinstance(managed, ManagedServer):
        return {"address": Address.parse(target)}  # raises, and says what is wrong
    return {"address": Address.later(managed.provider.kind), "managed": managed}


def parse_targets(target: Any) -> list[dict[str, Any]]:
    """The same for each server that a provider starts; a URL is one."""
    first = parse_target(target)
    managed: ManagedServer | None = first.get("managed")
    count = 1 if managed is None else managed.provider.servers
    return [{**first, "index": index} for index in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """The environment that a session is opened with; what is left out is as the server has it."""

    env_id: str | None = None
    """The name of the instance, which its requests carry."""
    arguments: Mapping[str, Any] | None = None
    autoreset: bool = False
    chat: Chat | None = None
    deadline: float | None = None
    max_episode_steps: int | None = None

    def to_data(self, *, schema: bool = True) -> dict[str, Any]:
        """The `data` of an `open` message; with `schema` the server describes its environment."""
        data: dict[str, Any] = {"autoreset": True} if self.autoreset else {}
        if self.chat is not None:
            data["chat"] = asdict(self.chat)
        for name in ("env_id", "deadline", "max_episode_steps"):
            value = getattr(self, name)
            if value is not None:
                data[name] = value
        if self.arguments:
            data["arguments"] = to_sendable(dict(self.arguments), "arguments")
        return {**data, "schema": True} if schema else data

"""What a client was told: where the server is, how long to wait, and which environment is wanted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from envweave.client.address import Address
from envweave.core.jsonable import to_json
from envweave.errors import NotJSONableError, UsageError

if TYPE_CHECKING:
    from envweave.client.home import Place

TOKEN_VARIABLE = "ENVWEAVE_TOKEN"  # noqa: S105  (the name of the variable, not a secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One server and how to talk to it."""

    address: Address
    place: Place | None = None
    """Of a server that was started for us, and is started again when it is gone; its address is known only then."""
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_timeout_s: float = 10.0
    """For the first connection, and for finding a server again that was lost."""
    message_timeout_s: float | None = 60.0
    """For the answer to one call; None is for ever."""
    max_message_bytes: int = 100 * 1024 * 1024
    ping_interval_s: float | None = 20.0
    ping_timeout_s: float | None = 20.0

    async def settled(self) -> Self:
        """With the address of a server that runs. Raises `ProviderError` if none can be had."""
        return self if self.place is None else replace(self, address=await self.place.settle())

    async def look(self) -> str:
        """Raise `ProviderError`, with the cause, if the server was started for us and is gone.

        Gives the reason if nobody can tell, else nothing.
        """
        return "" if self.place is None else await self.place.look(self.address)

    @property
    def all_headers(self) -> dict[str, str]:
        """The caller's own, and the token's: the argument, else `ENVWEAVE_TOKEN`."""
        token = self.token if self.token is not None else os.environ.get(TOKEN_VARIABLE)
        return {**({"Authorization": f"Bearer {token}"} if token else {}), **self.headers}


def whereabouts(base_url: Any) -> dict[str, Any]:
    """The `address` and `place` of a server: at a URL, or of a provider (or its home) that is yet to start it."""
    if isinstance(base_url, str):
        return {"address": Address.parse(base_url)}
    from envweave.client.home import Home, Place
    from envweave.providers.base import Provider

    home = Home(base_url) if isinstance(base_url, Provider) else base_url
    if not isinstance(home, Home):
        return {"address": Address.parse(base_url)}  # which says what is wrong with it
    return {"address": Address.later(home.provider.kind), "place": Place(home)}


def all_whereabouts(base_url: Any) -> list[dict[str, Any]]:
    """Of each server that a provider starts; a URL is one."""
    first = whereabouts(base_url)
    place: Place | None = first.get("place")
    count = 1 if place is None else place.home.provider.servers
    return [first, *({**first, "place": replace(first["place"], number=number)} for number in range(1, count))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The environment that a session is opened with; what is left out is as the server has it."""

    env_id: str | None = None
    """The name of the instance, which its requests carry."""
    arguments: Mapping[str, Any] | None = None
    autoreset: bool = False
    deadline: float | None = None
    max_episode_steps: int | None = None
    episodes: int = 0
    """How many episodes went before under the same name, so that the server counts on."""

    def to_data(self, *, schema: bool = True) -> dict[str, Any]:
        """The `data` of an `open` message."""
        data: dict[str, Any] = {"autoreset": True} if self.autoreset else {}
        if self.episodes:
            data["episodes"] = self.episodes
        for name in ("env_id", "deadline", "max_episode_steps"):
            value = getattr(self, name)
            if value is not None:
                data[name] = value
        if self.arguments:
            data["arguments"] = sendable(dict(self.arguments), "arguments")
        return {**data, "schema": True} if schema else data


def sendable(value: Any, where: str, refusal: type[UsageError] = UsageError) -> Any:
    """The value as JSON data. What cannot cross is the caller's mistake, so it is a `UsageError`."""
    try:
        return to_json(value, where=where)
    except NotJSONableError as error:
        raise refusal(f"cannot be sent: {error.message}", error.hint) from None

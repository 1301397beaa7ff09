"""From an address to a handle, by the protocol that the server speaks."""

from __future__ import annotations

from typing import Any

from envweave.client.channel import Channel
from envweave.client.dial import dial
from envweave.client.openenv import openenv_handle
from envweave.client.remote import RemoteEnv
from envweave.client.settings import Settings, Wanted
from envweave.core.handle import AsyncEnvHandle


async def open_env(settings: Settings, wanted: Wanted) -> AsyncEnvHandle[Any]:
    """Connect and open a session. A server that does not know the extension is an OpenEnv server."""
    settings = await settings.settled()
    socket = await dial(settings)
    if socket.subprotocol is None:
        return await openenv_handle(settings, wanted, socket)
    channel = Channel(settings)
    channel.start(socket)
    return RemoteEnv(await channel.open(wanted), message_timeout_s=settings.message_timeout_s)

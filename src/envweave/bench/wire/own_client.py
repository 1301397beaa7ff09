"""Our own client, driven from outside: `python -m envweave.bench.wire.own_client`."""

from __future__ import annotations

import asyncio

from envweave.bench.wire.driven import MESSAGE, Session, drive
from envweave.client.env_client import EnvClient


async def open_session(url: str) -> Session:
    """A session that was reset, as a step to be called again and again."""
    env = EnvClient[object, object, object](url).aio
    await env.reset()

    async def step() -> None:
        result = await env.step({"message": MESSAGE})
        assert result.observation["echoed_message"] == MESSAGE

    return step, env.close


if __name__ == "__main__":
    asyncio.run(drive(open_session))

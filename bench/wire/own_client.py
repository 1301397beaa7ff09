"""A worker process with our own client: `python -m bench.wire.own_client`."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.worker import MESSAGE, OpenedSession, SessionsWorkload, serve
from envweave.client.env_client import EnvClient


async def open_session(url: str) -> OpenedSession:
    """Connect and reset. Returns the step and what closes the session."""
    env = EnvClient[Any, Any, Any](url).aio
    await env.reset()

    async def step() -> None:
        result = await env.step({"message": MESSAGE})
        assert result.observation.echoed_message == MESSAGE

    return step, env.close


if __name__ == "__main__":
    asyncio.run(serve(SessionsWorkload(open_session)))

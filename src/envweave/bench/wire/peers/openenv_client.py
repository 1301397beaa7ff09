"""OpenEnv's own client, driven from outside. Run by path in a process of its own: importing it takes four seconds."""
# mypy: ignore-errors

import asyncio

from openenv.core.generic_client import GenericEnvClient

from envweave.bench.wire.driven import MESSAGE, drive


async def open_session(url: str):
    """A session that was reset, as a step to be called again and again."""
    env = GenericEnvClient(base_url=url)
    await env.connect()
    await env.reset()

    async def step() -> None:
        result = await env.step({"message": MESSAGE})
        assert result.observation["echoed_message"] == MESSAGE

    return step, env.close


asyncio.run(drive(open_session))

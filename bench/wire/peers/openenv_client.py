"""A worker process with OpenEnv's own client. It is run by its path; importing the client takes four seconds."""
# mypy: ignore-errors

import asyncio

from openenv.core.generic_client import GenericEnvClient

from bench.worker import MESSAGE, SessionsWorkload, serve


async def open_session(url: str):
    """Connect and reset. Returns the step and what closes the session."""
    env = GenericEnvClient(base_url=url)
    await env.connect()
    await env.reset()

    async def step() -> None:
        result = await env.step({"message": MESSAGE})
        assert result.observation["echoed_message"] == MESSAGE

    return step, env.close


asyncio.run(serve(SessionsWorkload(open_session)))

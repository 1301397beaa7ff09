"""Server files as OpenEnv's users have them, with one import changed, all in one process. Prints their URLs as JSON."""

import asyncio
import json
import socket

import uvicorn
from environments import (
    AwaitingEnvironment,
    HalfAwaitingEnvironment,
    Heard,
    LonelyEnvironment,
    OneThreadEnvironment,
    Say,
    Story,
    SyncEnvironment,
)

from envweave.server import create_app, create_fastapi_app

APPS = {
    "sync": create_app(SyncEnvironment, Say, Heard, env_name="story", max_concurrent_envs=4, state_cls=Story),
    "async": create_app(AwaitingEnvironment, Say, Heard, env_name="story"),
    "half": create_app(HalfAwaitingEnvironment, Say, Heard, env_name="story"),
    "single": create_app(OneThreadEnvironment, Say, Heard, env_name="story"),
    "single_factory": create_app(lambda: OneThreadEnvironment(), Say, Heard, env_name="story"),
    "lonely": create_app(LonelyEnvironment, Say, Heard, env_name="story"),
    "class": create_fastapi_app(SyncEnvironment, Say, Heard),
    "factory": create_fastapi_app(lambda: SyncEnvironment(), Say, Heard),
    "instance": create_fastapi_app(SyncEnvironment(), Say, Heard),
}


async def main():
    listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in APPS}
    servers = [
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listeners[name]])
        for name, app in APPS.items()
    ]
    print(json.dumps({name: f"http://127.0.0.1:{one.getsockname()[1]}" for name, one in listeners.items()}), flush=True)
    await asyncio.gather(*servers)


if __name__ == "__main__":
    asyncio.run(main())

"""From a blueprint to a handle, sync or async as the environment is."""

from __future__ import annotations

import inspect
from typing import Any

from envweave.core.handle import EnvHandle
from envweave.core.local import Blueprint, LocalEnv


def start(blueprint: Blueprint, id: str) -> EnvHandle[Any]:
    """Build the environment and give the handle that fits it."""
    env = blueprint.build()
    if not inspect.iscoroutinefunction(env.step):
        return LocalEnv(blueprint, id, env)
    from envweave.core.async_local import bridged  # asyncio, loaded with the first async environment

    return bridged(blueprint, id, env)


def start_blocking(blueprint: Blueprint, id: str) -> LocalEnv:
    """A sync handle in any case; an async environment is waited for."""
    env = blueprint.build()
    if inspect.iscoroutinefunction(env.step):
        from envweave.core.async_local import Blocking

        env = Blocking(env)
    return LocalEnv(blueprint, id, env)

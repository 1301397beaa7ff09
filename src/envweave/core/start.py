"""From a blueprint to a handle, sync or async as the environment is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from envweave.core.flows import Blueprint
from envweave.core.handle import EnvHandle
from envweave.core.local import LocalEnv
from envweave.errors import EnvError, EnvWeaveError, describe

H = TypeVar("H")


def start(blueprint: Blueprint, id: str) -> EnvHandle[Any]:
    """Build the environment and give the handle that fits it."""
    env = blueprint.build()
    if not is_async(env):
        return started(id, lambda: LocalEnv(blueprint, id, env))
    from envweave.core.async_local import bridged  # asyncio, loaded with the first async environment

    return started(id, lambda: bridged(blueprint, id, env))


def start_blocking(blueprint: Blueprint, id: str, env: Any) -> LocalEnv:
    """A sync handle on an environment that was built, in any case; an async one is waited for."""
    if not is_async(env):
        return started(id, lambda: LocalEnv(blueprint, id, env))
    from envweave.core.async_local import Blocking

    return started(id, lambda: LocalEnv(blueprint, id, Blocking(env), env))


def is_async(env: Any) -> bool:
    """Whether its calls have to be awaited."""
    return inspect.iscoroutinefunction(env.step) or inspect.iscoroutinefunction(env.reset)


def started(id: str, make: Callable[[], H]) -> H:
    """An environment whose attributes raise when they are looked at is the author's failure."""
    try:
        return make()
    except EnvWeaveError:
        raise
    except Exception as error:
        raise EnvError(f"{id} cannot be used: {describe(error)}") from error

"""`ew.aio`: `make`, `make_vector` and `connect` for `await`. Nothing here blocks the event loop.

env = await ew.aio.make("http://localhost:8000")
await env.reset()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, overload

from envweave.core.environment import ActT, EnvironmentBase, HasAgents, HasStep, ObsT
from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.core.lookup import load
from envweave.core.threads import run_in_thread, start
from envweave.registry.make import EnvSource, prepare
from envweave.registry.rollouts import async_rollout as rollout
from envweave.registry.vectors import make_vector as make_sync_vector
from envweave.vector.aio import AsyncVectorEnv

__all__ = ["connect", "make", "make_vector", "rollout"]


@overload
async def make(id: HasAgents | Callable[..., HasAgents], **options: Any) -> AsyncEnvHandle[Any, Any, Any, Any]: ...


@overload
async def make(
    id: EnvironmentBase[ActT, ObsT] | Callable[..., EnvironmentBase[ActT, ObsT]], **options: Any
) -> AsyncEnvHandle[ActT, ObsT]: ...


@overload
async def make(id: EnvSource | HasStep, **options: Any) -> AsyncEnvHandle[Any, Any, Any, Any]: ...


async def make(id: Any, **options: Any) -> AsyncEnvHandle[Any, Any, Any, Any]:
    """`ew.make` for `await`: the environment is built or connected when this returns.

    If the caller is cancelled, nothing stays open.
    """
    handle: EnvHandle[Any, Any, Any, Any] = await run_in_thread(partial(prepare, id, **options), _close)
    return await handle.aio.__aenter__()  # connects, or closes what was started and raises


@overload
async def make_vector(
    id: Callable[..., HasAgents] | Sequence[Callable[..., HasAgents]], num_envs: int | None = ..., **options: Any
) -> AsyncVectorEnv[Any, Any, Any, Any]: ...


@overload
async def make_vector(
    id: Callable[..., EnvironmentBase[ActT, ObsT]] | Sequence[Callable[..., EnvironmentBase[ActT, ObsT]]],
    num_envs: int | None = ...,
    **options: Any,
) -> AsyncVectorEnv[ActT, ObsT]: ...


@overload
async def make_vector(
    id: EnvSource | Sequence[EnvSource | HasStep], num_envs: int | None = ..., **options: Any
) -> AsyncVectorEnv[Any, Any, Any, Any]: ...


async def make_vector(id: Any, num_envs: int | None = None, **options: Any) -> AsyncVectorEnv[Any, Any, Any, Any]:
    """`ew.make_vector` for `await`. If the caller is cancelled, nothing stays open."""
    vector = await run_in_thread(partial(make_sync_vector, id, num_envs, **options), _close)
    return vector.aio  # type: ignore[no-any-return]


async def connect(url: Any, **options: Any) -> AsyncEnvHandle[Any, Any, Any, Any]:
    """`ew.connect` for `await`."""
    client: EnvHandle[Any, Any, Any, Any] = load("envweave.client.env_client:EnvClient", extra="client")(url, **options)
    return await client.aio.__aenter__()


def _close(made: Any) -> None:
    """Close what was made for a caller that was cancelled; an exception needs no closing."""
    if not isinstance(made, BaseException):
        start(made.close)

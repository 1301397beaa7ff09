"""The handle on an async environment in this process."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from typing import Any, ClassVar, TypeVar

from envweave.core.faces import BridgedEnv
from envweave.core.flows import Blueprint, Flow, Flows, Snapshot
from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.core.loop import BACKGROUND, await_on
from envweave.requests import Request
from envweave.results import ResetResult, StepResult

T = TypeVar("T")


class AsyncLocalEnv(Flows, AsyncEnvHandle[Any]):
    """All calls to the environment run on the loop that made the first one, as long as that loop runs."""

    passing: ClassVar[tuple[type[BaseException], ...]] = (KeyboardInterrupt, asyncio.CancelledError)

    home: asyncio.AbstractEventLoop | None = None
    _home_pid = 0

    async def _run(self, flow: Flow[T]) -> T:
        if self.home is None or not self.home.is_running() or self._home_pid != os.getpid():
            self.home, self._home_pid = asyncio.get_running_loop(), os.getpid()
        return await await_on(self.home, run(flow))

    async def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[Any]:
        return await self._run(self.resetting(seed, options, episode_id, own))

    async def step(self, action: Any) -> StepResult[Any]:
        return self.checked(await self._run(self.stepping(action)))

    async def respond(self, request_id: str, value: Any) -> StepResult[Any]:
        return self.checked(await self._run(self.responding(request_id, value)))

    async def state(self) -> Any:
        return await self._run(self.stating())

    async def render(self) -> Any:
        return await self._run(self.rendering())

    async def snapshot(self) -> Snapshot:
        return await self._run(self.snapshotting())

    async def restore(self, snapshot: Snapshot) -> None:
        await self._run(self.restoring(snapshot))

    async def fork(self) -> AsyncLocalEnv:
        copied, episode = await self._run(self.forking())
        snapshot = None if copied is not None else await self.snapshot()
        env = self._blueprint.build() if copied is None else copied
        twin = AsyncLocalEnv(self._blueprint, self.fork_name(), env)
        twin.home, twin._home_pid = self.home, self._home_pid
        self._hand_down(twin)
        if snapshot is None:
            twin.referee.recall(episode)
        else:
            await twin.restore(snapshot)
        return twin

    async def close(self) -> tuple[Request, ...]:
        return await self._run(self.closing())


async def run(flow: Flow[T]) -> T:
    """Do what a flow asks for, by awaiting; a member may also be sync, as the author likes."""
    try:
        call = next(flow)
        while True:
            try:
                value = call()
                if inspect.isawaitable(value):
                    value = await value
            except BaseException as error:
                call = flow.throw(error)
            else:
                call = flow.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def bridged(blueprint: Blueprint, id: str, env: Any) -> EnvHandle[Any]:
    """The sync handle on an async environment."""
    return BridgedEnv(AsyncLocalEnv(blueprint, id, env), BACKGROUND)


class Blocking:
    """An async environment for a caller that can only wait; its coroutines run on the background loop."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._env, name)
        if not inspect.iscoroutinefunction(member):
            return member

        @functools.wraps(member)
        def wait(*args: Any, **kwargs: Any) -> Any:
            return BACKGROUND.run(member(*args, **kwargs))

        return wait

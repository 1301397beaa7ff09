"""The other face of a handle: sync over async, and async over sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from envweave.core.handle import AsyncEnvHandle, EnvHandle, Transform
from envweave.core.loop import LoopThread, refuse_on
from envweave.requests import Request
from envweave.results import ResetResult, StepResult

T = TypeVar("T")


class BridgedEnv(EnvHandle[Any]):
    """An async handle for code without an event loop."""

    def __init__(self, inner: AsyncEnvHandle[Any], loop: LoopThread) -> None:
        self.id = inner.id
        self._inner = inner
        self._loop = loop

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        refuse_on(getattr(self._inner, "home", None), work)
        return self._loop.run(work)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[Any]:
        return self._wait(self._inner.reset(seed=seed, options=options, episode_id=episode_id, **own))

    def step(self, action: Any) -> StepResult[Any]:
        return self._wait(self._inner.step(action))

    def respond(self, request_id: str, value: Any) -> StepResult[Any]:
        return self._wait(self._inner.respond(request_id, value))

    def state(self) -> Any:
        return self._wait(self._inner.state())

    def render(self) -> Any:
        return self._wait(self._inner.render())

    def snapshot(self) -> Any:
        return self._wait(self._inner.snapshot())

    def restore(self, snapshot: Any) -> None:
        self._wait(self._inner.restore(snapshot))

    def fork(self) -> BridgedEnv:
        return BridgedEnv(self._wait(self._inner.fork()), self._loop)

    def close(self) -> tuple[Request, ...]:
        return self._wait(self._inner.close())

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        return self._inner.action_schema(agent_id)

    @property
    def pending(self) -> tuple[Request, ...]:
        return self._inner.pending

    @property
    def transform(self) -> Transform | None:
        return self._inner.transform

    @transform.setter
    def transform(self, transform: Transform | None) -> None:
        self._inner.transform = transform

    @property
    def unwrapped(self) -> Any:
        return getattr(self._inner, "unwrapped", None)

    @property
    def aio(self) -> AsyncEnvHandle[Any]:
        return self._inner


class ThreadedEnv(AsyncEnvHandle[Any]):
    """A sync handle for `await`: each call runs in a thread, so that a slow step does not hold up the loop."""

    def __init__(self, inner: EnvHandle[Any]) -> None:
        self.id = inner.id
        self._inner = inner

    async def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[Any]:
        return await asyncio.to_thread(self._inner.reset, seed=seed, options=options, episode_id=episode_id, **own)

    async def step(self, action: Any) -> StepResult[Any]:
        return await self._call(self._inner.step, action)

    async def respond(self, request_id: str, value: Any) -> StepResult[Any]:
        return await self._call(self._inner.respond, request_id, value)

    async def _call(self, call: Callable[..., StepResult[Any]], *arguments: Any) -> StepResult[Any]:
        """A thread cannot be cancelled: the step goes on, and an end that nobody receives is owed."""
        running = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(self._owe)
            raise

    def _owe(self, running: asyncio.Future[StepResult[Any]]) -> None:
        referee = getattr(self._inner, "referee", None)
        error = running.exception()
        requests = running.result().requests if error is None else getattr(error, "requests", ())
        if referee is not None:
            referee.owe(requests)

    async def state(self) -> Any:
        return await asyncio.to_thread(self._inner.state)

    async def render(self) -> Any:
        return await asyncio.to_thread(self._inner.render)

    async def snapshot(self) -> Any:
        return await asyncio.to_thread(self._inner.snapshot)

    async def restore(self, snapshot: Any) -> None:
        await asyncio.to_thread(self._inner.restore, snapshot)

    async def fork(self) -> ThreadedEnv:
        return ThreadedEnv(await asyncio.to_thread(self._inner.fork))

    async def close(self) -> tuple[Request, ...]:
        return await asyncio.to_thread(self._inner.close)

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        return self._inner.action_schema(agent_id)

    @property
    def pending(self) -> tuple[Request, ...]:
        return self._inner.pending

    @property
    def transform(self) -> Transform | None:
        return self._inner.transform

    @transform.setter
    def transform(self, transform: Transform | None) -> None:
        self._inner.transform = transform

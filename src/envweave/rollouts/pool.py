"""The environments of a rollout: opened when none is idle, used again, and closed at the latest with the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeAlias, TypeVar

from envweave.core.handle import AsyncEnvHandle
from envweave.errors import CapacityError, ClosedError, EnvWeaveError, UnsupportedError
from envweave.rollouts.episodes import Failure

T = TypeVar("T")

Env: TypeAlias = AsyncEnvHandle[Any, Any, Any, Any]


class EnvOpener(Protocol):
    """Opens environments, all alike."""

    async def __call__(self) -> Env:
        """One more."""

    async def close(self) -> None:
        """Stop what was started for them."""


CLOSE_TIMEOUT_S = 10.0


class EnvPool:
    """Owns all environments that it opens and all forks that it is given. Lives on one event loop.

    With `waits`, an environment or fork that a limit refuses is asked for again when another one has been closed.
    """

    def __init__(self, open_env: EnvOpener | None = None, *, owns_envs: bool = True, waits: bool = True) -> None:
        self.failures: list[Failure] = []
        """Of environments that could not be closed."""
        self._open_env = open_env
        self._owns_envs = owns_envs
        self._waits = waits
        self._idle: list[Env] = []
        self._living: dict[int, Env] = {}
        self._forks: set[int] = set()
        self._borrowed: Env | None = None
        self._closings: set[asyncio.Task[None]] = set()
        self._work: set[asyncio.Task[None]] = set()
        self._returned = asyncio.Event()

    async def take(self) -> Env:
        """An environment for one episode. At the capacity of a server, it is one that another episode gives back."""
        while True:
            if self._idle:
                return self._idle.pop()
            returned = self._returned
            try:
                return await self._open()
            except CapacityError:
                if not (self._waits and self._living):
                    raise
            await returned.wait()

    async def fork(self, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` returns. Raises what it raises, unless there are other forks whose end makes room."""
        while True:
            returned, others = self._returned, len(self._forks)
            try:
                return await make()
            except (UnsupportedError, CapacityError):
                if not self._waits or not (others or self._forks):
                    raise
            await returned.wait()

    async def _open(self) -> Env:
        if self._open_env is None:
            raise ClosedError("this pool opens no environments")
        env = await self._open_env()
        if self._owns_envs:
            self._living[id(env)] = env
        else:
            self._borrowed = env
        return env

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what makes environments; it is cancelled when the pool is closed."""
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    def adopt(self, fork: Env, *, is_played: bool) -> None:
        """Own a fork. One that is not played stays until it is released."""
        self._living[id(fork)] = fork
        if is_played:
            self._forks.add(id(fork))

    def release(self, env: Env) -> None:
        """Own it no longer: the caller closes it."""
        self._living.pop(id(env), None)
        self._forks.discard(id(env))

    def give_back(self, env: Env) -> None:
        """Use it again for another episode."""
        self._idle.append(env)
        self._notify()

    def discard(self, env: Env) -> None:
        """Close it without waiting: a local step that hangs cannot be cancelled. A borrowed one stays open."""
        if env is self._borrowed:
            self.give_back(env)
        elif self._living.get(id(env)) is env:
            del self._living[id(env)]
            closing = asyncio.ensure_future(self._close_env(env))
            self._closings.add(closing)
            closing.add_done_callback(self._closings.discard)

    async def close(self) -> None:
        """Close everything that lives."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        for env in list(self._living.values()):
            self.discard(env)
        self._idle.clear()
        while self._closings:
            await asyncio.gather(*self._closings)
        if self._open_env is not None:
            await self._open_env.close()

    async def _close_env(self, env: Env) -> None:
        try:
            await asyncio.wait_for(env.close(), CLOSE_TIMEOUT_S)
        except (EnvWeaveError, TimeoutError) as error:
            self.failures.append(Failure.of("close", error, 1))
        finally:
            self._forks.discard(id(env))
            self._notify()

    def _notify(self) -> None:
        self._returned.set()
        self._returned = asyncio.Event()

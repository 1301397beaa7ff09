"""Forks of one environment. Those that are asked for together are made together: forks make forks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from envweave.errors import CapacityError, EnvWeaveError, UnsupportedError
from envweave.rollouts.pool import Env, EnvPool


@dataclass(slots=True)
class _Request:
    pool: EnvPool
    is_played: bool
    future: asyncio.Future[Env]
    made: Env | Exception | None = None

    def deliver(self) -> None:
        if isinstance(self.made, Exception):
            if not self.future.done():
                self.future.set_exception(self.made)
                self.future.exception()  # whoever asked may be gone
        elif self.made is None or self.future.done():
            self.future.cancel()
            if self.made is not None:
                self.pool.discard(self.made)
        else:
            self.future.set_result(self.made)


class Forks:
    """Makes forks of an environment, which takes no other calls until `settled`."""

    def __init__(self, env: Env, timeout: float | None) -> None:
        self._env = env
        self._timeout = timeout
        self._waiting: list[_Request] = []
        self._worker: asyncio.Task[None] | None = None

    def request(self, pool: EnvPool, *, is_played: bool = True) -> asyncio.Future[Env]:
        """A fork, which `pool` owns. Fails with what `fork` raises, or with `TimeoutError`."""
        future: asyncio.Future[Env] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Request(pool, is_played, future))
        if self._worker is None:
            self._worker = pool.start(self._work())
        return future

    async def settled(self) -> None:
        """Wait until no fork is being made."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        requests: list[_Request] = []
        try:
            while self._waiting:
                requests, self._waiting = self._waiting, []
                await self._make(self._env, requests)
                for request in requests:
                    request.deliver()
                requests = []
        finally:
            self._worker = None
            for request in [*requests, *self._waiting]:  # cancelled
                request.deliver()

    async def _make(self, env: Env, requests: Sequence[_Request]) -> None:
        if not requests:
            return
        first, *others = requests
        try:
            fork = await asyncio.wait_for(env.fork(), self._timeout)
        except (UnsupportedError, CapacityError) as error:  # there is no room for the others either
            for request in requests:
                request.made = error
            return
        except (EnvWeaveError, TimeoutError) as error:
            first.made = error
            await self._make(env, others)
            return
        first.pool.adopt(fork, is_played=first.is_played)
        first.made = fork
        half = len(others) // 2
        await asyncio.gather(self._make(env, others[:half]), self._make(fork, others[half:]))

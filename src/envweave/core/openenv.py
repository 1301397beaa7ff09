"""Environments written for OpenEnv, played as their author meant them. OpenEnv itself is not imported.

They are recognised by their base class. Two things differ from the contract here: an async one overrides `reset_async`
and `step_async` and keeps sync members beside them, and `transform` is applied by the environment itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from envweave.core.env_types import types_of

PACKAGES = ("openenv", "openenv_core")


def openenv_base(env: Any) -> type | None:
    """OpenEnv's `Environment` class, if the environment derives from it."""
    for cls in type(env).__mro__:
        if cls.__name__ == "Environment" and cls.__module__.partition(".")[0] in PACKAGES:
            return cls
    return None


def from_openenv(env: Any, base: type) -> Any:
    """The environment with the members that are looked for here."""
    is_async = any(_overrides(env, base, name) for name in ("reset_async", "step_async"))
    return AwaitedOpenEnv(env, base) if is_async else OpenEnv(env)


class OpenEnv:
    """A sync environment of OpenEnv's."""

    applies_transform = True

    def __init__(self, env: Any) -> None:
        self.unwrapped = env
        self.reset: Callable[..., Any] = env.reset
        self.step: Callable[..., Any] = env.step
        self.action_type, self.observation_type, self.state_type = types_of(env)

    @property
    def transform(self) -> Any:
        return getattr(self.unwrapped, "transform", None)

    @transform.setter
    def transform(self, transform: Any) -> None:
        self.unwrapped.transform = transform

    def __getattr__(self, name: str) -> Any:  # state, close, class flags: as they are
        if name == "unwrapped" or name.startswith("__"):  # being copied: not set yet, or a question of `deepcopy`
            raise AttributeError(name)
        return getattr(self.unwrapped, name)


class AwaitedOpenEnv(OpenEnv):
    """An async one: what it overrides runs on the loop, what stayed sync on a thread of its own."""

    def __init__(self, env: Any, base: type) -> None:
        super().__init__(env)
        self._thread: Any = None
        self.reset = env.reset_async if _overrides(env, base, "reset_async") else self._apart(env.reset)
        self.step = env.step_async if _overrides(env, base, "step_async") else self._apart(env.step)

    def _apart(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A coroutine function with the signature of `call`; not a closure, so that a copy does not share it."""
        apart = functools.partial(self._wait, call)
        apart.__wrapped__ = call  # type: ignore[attr-defined]
        return apart

    async def _wait(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        import asyncio  # loaded with the first async environment
        from concurrent.futures import ThreadPoolExecutor

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "openenv")
        work = functools.partial(call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_thread": None}  # a copy has a thread of its own

    async def close(self) -> None:
        try:
            await self._apart(self.unwrapped.close)()
        finally:
            if self._thread is not None:
                self._thread.shutdown(wait=False)


def _overrides(env: Any, base: type, name: str) -> bool:
    found = getattr(env, name, None)
    return found is not None and getattr(found, "__func__", found) is not getattr(base, name, None)

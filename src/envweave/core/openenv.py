"""Environments written for OpenEnv, played as their author meant them. OpenEnv itself is not imported.

They are recognised by their base class. Two things differ from the contract here: an async one overrides `reset_async`
and `step_async` and keeps sync members beside them, and `transform` is applied by the environment itself. One that
derives from `MCPEnvironment` has tools as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from envweave.core.env_types import openenv_class, types_of
from envweave.core.tool_actions import ToolActions, tool_actions


def openenv_base(env: Any) -> type | None:
    """OpenEnv's `Environment` class, if the environment derives from it."""
    return openenv_class(type(env), "Environment")


def from_openenv(env: Any, base: type, action_type: Any = None) -> Any:
    """The environment with the members that are looked for here; `action_type` is what it is declared to take."""
    actions = tool_actions(env, action_type)
    if actions is not None:
        return ToolOpenEnv(env, base, actions)
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


class ToolOpenEnv(AwaitedOpenEnv):
    """One with tools, which are steps as well: `CallToolAction`, `ListToolsAction`."""

    def __init__(self, env: Any, base: type, actions: ToolActions) -> None:
        super().__init__(env, base)
        self.tool_actions = actions
        if self.step == env.step_async and _comes_first(type(env), "step", "step_async"):
            self.step = self._apart(env.step)  # the author wrote only that one, and `step_async` would go around it
        self.tools = OpenEnvTools(self)
        self._session: Any = None
        self._session_loop: Any = None

    async def connect(self) -> None:
        """Keep the connection to the tools open between calls, until `close`, as OpenEnv's server does.

        What tools keep in their session lives as long. A `step` that runs on a thread connects there, each time.
        """
        import asyncio

        env, loop = self.unwrapped, asyncio.get_running_loop()
        client = getattr(env, "mcp_client", None)
        if client is None or not hasattr(env, "mcp_session") or self.step != env.step_async:
            return
        if self._session is not None:
            if self._session_loop is loop and client.is_connected():
                return
            self._session, env.mcp_client = None, client.new()  # the old one ended with its loop, or its server
        session = env.mcp_session()
        with suppress(Exception):  # the call that needs it says what is wrong, in OpenEnv's words
            await session.__aenter__()
            self._session, self._session_loop = session, loop

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_session": None, "_session_loop": None}

    async def close(self) -> None:
        import asyncio

        session, self._session = self._session, None
        if session is not None and self._session_loop is asyncio.get_running_loop():
            with suppress(Exception):  # it is over either way
                await session.__aexit__(None, None, None)
        await super().close()


class OpenEnvTools:
    """The tools of an environment of OpenEnv's, listed and called as its own server does: not as steps, if they are
    those of an MCP server.
    """

    def __init__(self, env: ToolOpenEnv) -> None:
        self._env = env

    async def list(self) -> list[dict[str, Any]]:
        """The tools as data, in MCP's words. Raises what the environment raises."""
        client = getattr(self._env.unwrapped, "mcp_client", None)
        if client is not None:
            async with client:
                return [tool.model_dump() for tool in await client.list_tools()]
        observation = await self._env.step(self._env.tool_actions.list())
        return [_in_words_of_mcp(tool.model_dump()) for tool in observation.tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """The result in full, an object or a model. Raises what the tool raises."""
        client = getattr(self._env.unwrapped, "mcp_client", None)
        if client is not None:
            async with client:
                return await client.call_tool(name, arguments)
        return await self._env.step(self._env.tool_actions.call(tool_name=name, arguments=arguments))


def _in_words_of_mcp(tool: dict[str, Any]) -> dict[str, Any]:
    return {("inputSchema" if key == "input_schema" else key): value for key, value in tool.items()}


def _comes_first(cls: type, name: str, other: str) -> bool:
    """Whether the class that defines one member derives from the class that defines the other."""
    definers = [next((base for base in cls.__mro__ if each in vars(base)), object) for each in (name, other)]
    return definers[0] is not definers[1] and issubclass(*definers)


def _overrides(env: Any, base: type, name: str) -> bool:
    found = getattr(env, name, None)
    return found is not None and getattr(found, "__func__", found) is not getattr(base, name, None)

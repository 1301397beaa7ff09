"""Environments with MCP tools, as OpenEnv's users write them, and servers of them in one process.

As a program it prints the URLs as JSON: `theirs` is OpenEnv's own server.
"""

import asyncio
import json
import logging
import socket

import uvicorn
from fastmcp import Context, FastMCP
from openenv.core.env_server import Action, Environment, Observation, State
from openenv.core.env_server import create_app as openenv_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
)

from envweave.server import create_app

logging.getLogger("fastmcp").setLevel(logging.CRITICAL)


class Nudge(Action):
    by: int


class Nudged(Observation):
    total: int = 0


class Toolroom(MCPEnvironment):
    """Adds up what its tools and its own actions are given."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server = FastMCP("toolroom")
        self.total = self.resets = self.steps = 0

        @server.tool
        def add(a: int, b: int = 1) -> int:
            """Add two numbers to the total.

            Args:
                a: The first.
            """
            self.total += a + b
            return a + b

        @server.tool
        def describe() -> dict:
            return {"total": self.total, "resets": self.resets}

        @server.tool(name="say-nothing")
        def say_nothing() -> None: ...

        @server.tool
        def fail() -> str:
            raise ValueError("no luck")

        @server.tool
        async def hang() -> str:
            await asyncio.Event().wait()
            return "never"

        @server.tool
        async def remember(ctx: Context) -> int:
            """Count the calls of one MCP session."""
            count = (await ctx.get_state("count") or 0) + 1
            await ctx.set_state("count", count)
            return count

        super().__init__(server)

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.total, self.resets = seed or 0, self.resets + 1
        return Nudged(total=self.total, reward=0.0, metadata={"resets": self.resets})

    def _step_impl(self, action: Nudge, timeout_s=None, **kwargs):
        self.total += action.by
        return Nudged(total=self.total, reward=1.0)

    async def step_async(self, action, timeout_s=None, **kwargs):
        self.steps += 1
        return await super().step_async(action, timeout_s=0.5, **kwargs)  # for the tool that hangs

    @property
    def state(self):
        return State(step_count=self.steps)


class Scored(MCPEnvironment):
    """Overrides only the sync `step`."""

    def __init__(self):
        server = FastMCP("scored")

        @server.tool
        def echo(text: str) -> str:
            return text

        super().__init__(server)

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return self._handle_call_tool(CallToolAction(tool_name="echo", arguments={"text": "own"}))

    def step(self, action, timeout_s=None, **kwargs):
        observation = super().step(action, timeout_s=timeout_s, **kwargs)
        observation.reward = 7.0
        return observation

    @property
    def state(self):
        return State()


class ByHand(Environment):
    """Answers the actions about tools itself, without an MCP server."""

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=[Tool(name="twice", description="", input_schema={"type": "object"})])
        return CallToolObservation(tool_name=action.tool_name, result=2 * action.arguments["x"], reward=0.5)

    @property
    def state(self):
        return State()


class Alone(Toolroom):
    """Instances disturb each other: there is one session at a time."""

    SUPPORTS_CONCURRENT_SESSIONS = False


def apps():
    tools, own, base = (CallToolAction, CallToolObservation), (Nudge, Nudged), (Action, Observation)
    return {
        "theirs": openenv_app(Toolroom, *tools, env_name="toolroom", max_concurrent_envs=64),
        "theirs_by_hand": openenv_app(ByHand, *tools, env_name="by_hand"),
        "tools": create_app(Toolroom, *tools, env_name="toolroom", max_concurrent_envs=64),
        "base": create_app(Toolroom, *base, env_name="toolroom"),
        "own": create_app(Toolroom, *own, env_name="toolroom"),
        "untyped": create_app(Toolroom),
        "factory": create_app(lambda: Toolroom(), *tools),
        "scored": create_app(Scored, *tools),
        "by_hand": create_app(ByHand, *tools),
        "alone": create_app(Alone, *tools),
        "narrow": create_app(Toolroom, *tools, max_concurrent_envs=1),
    }


async def main():
    made = apps()
    listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in made}
    servers = [
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listeners[name]])
        for name, app in made.items()
    ]
    print(json.dumps({name: f"http://127.0.0.1:{one.getsockname()[1]}" for name, one in listeners.items()}), flush=True)
    await asyncio.gather(*servers)


if __name__ == "__main__":
    asyncio.run(main())

"""OpenEnv's own clients against our servers: `python play.py PART=URL PART=URL …` prints what they saw, as JSON.

All parts in one process, because importing OpenEnv takes seconds. Nothing of envweave is imported here. A part's name
may have a suffix, to play it twice: `served:async=http://…`.
"""

import asyncio
import json
import sys

from openenv.core import GenericEnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State


class Say(Action):
    message: str


class Heard(Observation):
    echoed_message: str
    message_length: int


class EchoClient(EnvClient[Say, Heard, State]):
    """As OpenEnv's template writes it."""

    def _step_payload(self, action):
        return {"message": action.message}

    def _parse_result(self, payload):
        fields = payload.get("observation", {})
        heard = Heard(**{**fields, "done": payload.get("done", False), "reward": payload.get("reward")})
        return StepResult(observation=heard, reward=payload.get("reward"), done=payload.get("done", False))

    def _parse_state(self, payload):
        return State(episode_id=payload.get("episode_id"), step_count=payload.get("step_count", 0))


def shown(result):
    observation = result.observation
    if hasattr(observation, "model_dump"):
        observation = observation.model_dump()
    return {"observation": observation, "reward": result.reward, "done": result.done}


def complaint(call):
    """What a call raises, as text."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def echo_sync(url):
    with EchoClient(base_url=url).sync() as env:
        first = shown(env.reset(episode_id="mine"))
        steps = [shown(env.step(Say(message=message))) for message in ("Hello, World!", "", "é" * 10)]
        return {"reset": first, "steps": steps, "state": env.state().model_dump()}


def echo_async(url):
    async def play():
        async with EchoClient(base_url=url) as env:
            first = shown(await env.reset(seed=7))
            steps = [shown(await env.step(Say(message=message))) for message in ("Hello, World!", "", "é" * 10)]
            return {"reset": first, "steps": steps, "state": (await env.state()).model_dump()}

    return asyncio.run(play())


def echo_together(url):
    """Several clients at the same time, each with a session of its own."""

    async def play(number):
        async with GenericEnvClient(base_url=url) as env:
            await env.reset()
            for _ in range(number):
                await env.step({"message": "x"})
            return (await env.state())["step_count"]

    async def all_of_them():
        return await asyncio.gather(*(play(number) for number in range(8)))

    return asyncio.run(all_of_them())


def walk(url):
    """Two episodes of lineworld in one session; walks to the goal, then away from it."""
    with GenericEnvClient(base_url=url).sync() as env:
        episodes = []
        for seed, way in ((3, 1), (3, -1)):
            results = [shown(env.reset(seed=seed))]
            toward = 1 if results[0]["observation"]["goal"] > 0 else -1
            while not results[-1]["done"]:
                results.append(shown(env.step({"move": toward * way})))
            episodes.append(results)
        return {"episodes": episodes, "after": complaint(lambda: env.step({"move": 1})), "again": shown(env.reset())}


def walk_async(url):
    async def play():
        async with GenericEnvClient(base_url=url) as env:
            results = [shown(await env.reset(seed=3))]
            toward = 1 if results[0]["observation"]["goal"] > 0 else -1
            while not results[-1]["done"]:
                results.append(shown(await env.step({"move": toward})))
            return results

    return asyncio.run(play())


def errors(url):
    """What the client makes of our error replies; the same session goes on after each of them."""
    with GenericEnvClient(base_url=url).sync() as env:
        found = {"early": shown(env.step({"move": 1}))["observation"]["t"]}
        found["option"] = complaint(lambda: env.reset(colour="red"))
        env.reset(seed=1)
        found["action"] = complaint(lambda: env.step({"move": 7}))
        found["field"] = complaint(lambda: env.step({"hop": 1}))
        found["seed"] = complaint(lambda: env.reset(seed="x"))
        found["alive"] = shown(env.step({"move": 1}))["observation"]["t"]
        return found


def trouble(url):
    """An environment that raises in reset and step."""
    with GenericEnvClient(base_url=url).sync() as env:
        found = {"reset": complaint(lambda: env.reset(fail=True))}
        env.reset()
        found["step"] = complaint(lambda: env.step({"message": "boom"}))
        found["over"] = complaint(lambda: env.step({"message": "hi"}))
        env.reset()
        found["alive"] = shown(env.step({"message": "hi"}))["observation"]["echoed_message"]
        return found


def capacity(url):
    """A second client where there is room for one; it comes in when the first has left."""
    with GenericEnvClient(base_url=url).sync() as first:
        first.reset()
        second = GenericEnvClient(base_url=url).sync()
        refused = complaint(second.reset)
        alive = shown(first.step({"message": "still here"}))["observation"]["echoed_message"]
    with GenericEnvClient(base_url=url).sync() as third:
        return {"refused": refused, "alive": alive, "later": shown(third.reset())["observation"]["echoed_message"]}


def tools(url):
    """The way of OpenEnv's tool clients: a session over HTTP, a WebSocket attached to it, the end of both."""
    from openenv.core.mcp_client import MCPToolClient

    async def play():
        client = MCPToolClient(base_url=url)
        async with client:
            session = client._production_session_id
            await client.reset()
            state = await client.state()
            listed = await _complaint(client.list_tools())
            called = await _complaint(client.call_tool("echo", message="hi"))
            await client._disconnect_async()
            closed = await client._production_mcp_request("openenv/session/close", {"session_id": session})
            again = await client._production_mcp_request("openenv/session/close", {"session_id": session})
        found = {"session": session, "steps": state.step_count, "listed": listed, "called": called}
        return {**found, "closed": closed, "again": again}

    return asyncio.run(play())


def workshop(url):
    """The same with an environment that has tools; the session is the client's own, by HTTP and by WebSocket."""
    from openenv.core.mcp_client import MCPToolClient

    async def play():
        async with MCPToolClient(base_url=url) as client, MCPToolClient(base_url=url) as other:
            await client.reset()
            await other.reset()
            listed = [tool.model_dump() for tool in await client.list_tools()]
            called = [await client.call_tool("collect", word=word) for word in ("a", "é")]
            called.append(await other.call_tool("collect", word="theirs"))
            called.append(await client.call_tool("words"))
            wrong = {
                "unknown": await _complaint(client.call_tool("nothing")),
                "missing": await _complaint(client.call_tool("collect")),
                "failing": await _complaint(client.call_tool("fail")),
            }
            over_socket = await client._send_and_receive(
                {
                    "type": "mcp",
                    "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "words"}},
                }
            )
            state = await client.state()
            return {
                "listed": listed, "called": called, "wrong": wrong, "over_socket": over_socket["data"],
                "steps": state.step_count,
            }  # fmt: skip

    return asyncio.run(play())


async def _complaint(call):
    try:
        return await call
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def served(url):
    """An environment of OpenEnv's own kind: a whole episode, its state, its end."""
    with GenericEnvClient(base_url=url).sync() as env:
        first = shown(env.reset(seed=5, episode_id="mine", greeting="hello"))
        steps = [shown(env.step({"message": message})) for message in ("a", "bb", "stop")]
        state = env.state()
        again = shown(env.reset())
        return {"reset": first, "steps": steps, "state": state, "again": again}


def main(arguments):
    seen = {}
    for argument in arguments:
        part, _, url = argument.partition("=")
        seen[part] = globals()[part.partition(":")[0]](url)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Use the tools of `toolroom.py` in every way there is, and print as JSON what was seen: `toolplay.py PART=URL …`.

The same is played on OpenEnv's server and on ours.
"""

import asyncio
import json
import sys
import traceback
from functools import partial

import httpx
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.mcp_client import MCPToolClient
from toolroom import Nudge, Scored, Toolroom
from websockets.sync.client import connect

import envweave as ew

MISTAKES = (("nothing", {}), ("fail", {}), ("add", {"a": "x"}), ("add", {}))
"""Names and arguments of calls: no such tool, one that raises, a wrong argument, none at all."""


def told(call):
    """What a call gives, or what the client raises."""
    try:
        return call()
    except (RuntimeError, ew.EnvWeaveError) as error:
        return f"{type(error).__name__}: {error}"


def shown(result):
    observation = result.observation
    observation = observation if isinstance(observation, dict) else observation.model_dump(mode="json")
    return [observation, result.reward, result.done]


def steps(url):
    """OpenEnv's tool client, whose calls are steps on the WebSocket; none of them needs a reset."""
    client = MCPToolClient(base_url=url)
    client.use_production_mode = False
    with client.sync() as env:
        found = {"listed": [tool.model_dump() for tool in env.list_tools()]}
        found["before_reset"] = env.call_tool("describe")
        found["reset"] = shown(env.reset(seed=5))
        found["called"] = [env.call_tool("add", a=1, b=2), env.call_tool("say-nothing"), env.call_tool("describe")]
        found["session"] = [env.call_tool("remember") for _ in range(3)]
        found["step"] = shown(env.step(CallToolAction(tool_name="add", arguments={"a": 2})))
        found["found"] = [env.has_tool("add"), env.has_tool("nothing"), env.get_tool("add").model_dump()]
        for name, arguments in (*MISTAKES, ("hang", {})):
            action = CallToolAction(tool_name=name, arguments=arguments)
            found[f"{name} {arguments}"] = shown(env.step(action))
            found[f"{name} {arguments} raised"] = told(partial(env.call_tool, name, **arguments))
        found["steps"] = env.state().step_count
    return found


def production(url):
    """The same client as it is: a session over HTTP for tools, shared by the WebSocket for steps."""
    with MCPToolClient(base_url=url).sync() as env:
        found = {"listed": [tool.model_dump() for tool in env.list_tools()]}
        found["before_reset"] = env.call_tool("describe")
        found["reset"] = shown(env.reset(seed=5))
        found["called"] = [env.call_tool("add", a=1), env.call_tool("describe")]
        found["session"] = [env.call_tool("remember") for _ in range(2)]
        found["same_session"] = shown(env.step(CallToolAction(tool_name="remember")))
        found["steps"] = env.state().step_count
        for name, arguments in MISTAKES:
            found[f"{name} {arguments}"] = told(partial(env.call_tool, name, **arguments))
    return found


async def _together(url):
    """Eight clients at once; each has a session of its own."""

    async def one(number):
        async with MCPToolClient(base_url=url) as env:
            await env.reset(seed=number)
            await env.call_tool("add", a=1, b=0)
            return (await env.call_tool("describe"))["total"]

    return await asyncio.gather(*(one(number) for number in range(8)))


def together(url):
    return asyncio.run(_together(url))


def request(method, params=None, id=1, **other):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}, **other}


REQUESTS = {
    "list": request("tools/list"),
    "call": request("tools/call", {"name": "add", "arguments": {"a": 1}}, id="x"),
    "object": request("tools/call", {"name": "describe"}),
    "none": request("tools/call", {"name": "say-nothing"}),
    "unknown_tool": request("tools/call", {"name": "nothing"}),
    "failing": request("tools/call", {"name": "fail"}),
    "bad_arguments": request("tools/call", {"name": "add", "arguments": {"a": "x"}}),
    "no_name": request("tools/call"),
    "unknown_method": request("prompts/list"),
    "no_session_to_close": request("openenv/session/close"),
    "unknown_session": request("openenv/session/close", {"session_id": "nobody"}),
    "strange_key": request("tools/list", colour="red"),
    "strange_id": request("tools/list", id={}),
    "old_version": {"jsonrpc": "1.0", "id": 1, "method": "tools/list"},
    "no_id": {"jsonrpc": "2.0", "method": "prompts/list"},
}


def http(url):
    """JSON-RPC by POST. Without a session, only what does not depend on it can be compared."""
    with httpx.Client(base_url=url, timeout=30) as client:
        found = {name: client.post("/mcp", json=data).json() for name, data in REQUESTS.items() if name != "object"}
        found["unknown_session_to_list"] = client.post(
            "/mcp", json=request("tools/list", {"session_id": "nobody"})
        ).json()
        found["not_json"] = client.post("/mcp", content=b"{").json()
        found["not_an_object"] = client.post("/mcp", content=b"[1]").json()
        found["list_by_step"] = client.post("/step", json={"action": {"type": "list_tools"}}).json()
    return found


def socket(url):
    """JSON-RPC on the WebSocket at `/mcp`, which has a session of its own."""
    with connect(f"{url}/mcp".replace("http", "ws", 1)) as ws:

        def ask(text):
            ws.send(text)
            return json.loads(ws.recv(timeout=30))

        found = {name: ask(json.dumps(data)) for name, data in REQUESTS.items()}
        found["not_json"] = ask("{")
        own = ask(json.dumps(request("openenv/session/create")))["result"]["session_id"]
        found["own_session"] = ask(json.dumps(request("openenv/session/close", {"session_id": own})))
        found["again"] = ask(json.dumps(request("tools/call", {"name": "describe"})))
    return found


def inside(url):
    """JSON-RPC inside of `/ws`, between steps."""
    with connect(f"{url}/ws".replace("http", "ws", 1)) as ws:

        def ask(type, data=None):
            ws.send(json.dumps({"type": type} if data is None else {"type": type, "data": data}))
            return json.loads(ws.recv(timeout=30))

        found = {name: ask("mcp", data) for name, data in REQUESTS.items()}
        found["list_step"] = ask("step", {"type": "list_tools"})
        found["call_step"] = ask("step", {"type": "call_tool", "tool_name": "add", "arguments": {"a": 4}})
        found["untyped_step"] = ask("step", {"tool_name": "describe"})
        found["state"] = ask("state")["data"]["step_count"]
        found["bad_step"] = ask("step", {"type": "call_tool"})["data"]["code"]
    return found


def sessions(url):
    """A session that is made over HTTP, used over a WebSocket, and closed while that is still connected."""
    with httpx.Client(base_url=url, timeout=30) as client:

        def rpc(method, params=None):
            return client.post("/mcp", json=request(method, params)).json()

        made = rpc("openenv/session/create")["result"]["session_id"]
        address = f"{url}/ws?session_id={made}".replace("http", "ws", 1)
        with connect(address) as ws:

            def ask(type, **data):
                ws.send(json.dumps({"type": type, **data}))
                return json.loads(ws.recv(timeout=30))

            found = {"same": ask("mcp", data=request("openenv/session/create"))["data"]["result"]["session_id"] == made}
            found["own"] = ask("mcp", data=request("openenv/session/close", {"session_id": made}))["data"]
            with connect(address) as second:
                found["second"] = json.loads(second.recv(timeout=30))["data"]["code"]
            rpc("tools/call", {"name": "add", "arguments": {"a": 1}, "session_id": made})
            closing = rpc("openenv/session/close", {"session_id": made})["result"]
            found["closing"] = {**closing, "session_id": closing["session_id"] == made}
            found["still_there"] = ask("step", data={"tool_name": "describe"})
            ws.send(json.dumps({"type": "close"}))
            found["left"] = [*ws]
        answers = (rpc("tools/list", {"session_id": made}) for _ in range(1000))  # until the server has noticed
        found["gone"] = next(answer["error"]["code"] for answer in answers if "error" in answer)
        other = rpc("openenv/session/create")["result"]["session_id"]
        found["closed"] = rpc("openenv/session/close", {"session_id": other})["result"]["closed"]
        found["twice"] = rpc("openenv/session/close", {"session_id": other})["error"]["code"]
    return found


def room(url):
    """Tools that are asked for without a session take no place from a client."""
    with httpx.Client(base_url=url, timeout=30) as client:
        listed = client.post("/mcp", json=request("tools/list")).json()
        called = client.post("/mcp", json=request("tools/call", {"name": "add", "arguments": {"a": 1}})).json()
        with connect(f"{url}/mcp".replace("http", "ws", 1)) as first:
            first.send(json.dumps(request("tools/call", {"name": "describe"})))
            found = [len(listed["result"]["tools"]), called["result"]["data"], json.loads(first.recv(timeout=30))]
            with connect(f"{url}/mcp".replace("http", "ws", 1)) as second:
                found += [json.loads(second.recv(timeout=30)), [*second]]
    return found


def ours(url):
    """The client of envweave."""
    actions = {
        "class": CallToolAction(tool_name="add", arguments={"a": 1}),
        "data": {"type": "call_tool", "tool_name": "describe", "arguments": {}},
        "list_class": ListToolsAction(),
        "list_data": {"type": "list_tools"},
        "unknown_tool": {"type": "call_tool", "tool_name": "nothing"},
    }
    with ew.connect(url) as env:
        env.reset(seed=3)
        results = {name: env.step(action) for name, action in actions.items()}
        refused = told(lambda: env.step({"type": "call_tool"}))
        after = env.step({"type": "call_tool", "tool_name": "describe", "arguments": {}})
    seen = {name: [type(one.obs).__name__, _fields(one.obs), one.reward] for name, one in results.items()}
    return {**seen, "refused": refused, "after": _fields(after.obs)["result"]["data"]}


def _fields(observation):
    data = observation if isinstance(observation, dict) else vars(observation)
    return json.loads(json.dumps(data, default=lambda part: getattr(part, "value", None) or vars(part)))


def own(url):
    """The environment's own actions, beside those of tools."""
    with ew.connect(url) as env:
        found = [type(env.reset(seed=3).obs).__name__]
        for action in (Nudge(by=2), {"by": 3}, {"type": "call_tool", "tool_name": "add", "arguments": {"a": 1}}):
            result = env.step(action)
            found.append([type(result.obs).__name__, result.reward])
        found.append(env.step({"type": "call_tool", "tool_name": "describe"}).obs.result["data"])
        found.append(told(lambda: env.step({"by": "x"})))
    return found


def scored(url):
    """An environment that overrides only `step`."""
    with MCPToolClient(base_url=url).sync() as env:
        stepped = env.step(CallToolAction(tool_name="echo", arguments={"text": "hi"}))
        return [stepped.observation.result["data"], stepped.reward, env.call_tool("echo", text="own")]


def by_hand(url):
    """An environment without an MCP server."""
    with connect(f"{url}/mcp".replace("http", "ws", 1)) as ws:
        answers = []
        for asked in (request("tools/list"), request("tools/call", {"name": "twice", "arguments": {"x": 3}})):
            ws.send(json.dumps(asked))
            answers.append(json.loads(ws.recv(timeout=30)))
    listed = [{key: tool[key] for key in ("name", "description")} for tool in answers[0]["result"]["tools"]]
    return {"listed": listed, "called": answers[1]}


def local(which):
    """In this process, without a server."""
    make = {
        "adapt": lambda: ew.adapt(Toolroom()),
        "class": lambda: ew.make(Toolroom),
        "id": lambda: ew.make("pkg://toolroom:Toolroom"),
        "declared": lambda: ew.make(ew.EnvSpec(id="room", factory=Toolroom, action_type=CallToolAction)),
    }[which]
    with make() as env:
        found = {"reset": type(env.reset(seed=5).obs).__name__}
        for name, action in {
            "class": CallToolAction(tool_name="add", arguments={"a": 1}),
            "data": {"type": "call_tool", "tool_name": "describe", "arguments": {}},
            "list_class": ListToolsAction(),
            "list_data": {"type": "list_tools"},
            "own": Nudge(by=2),
            "own_data": {"by": 3},
            "unknown_tool": {"tool_name": "nothing"},
            "timeout": {"tool_name": "hang"},
            "bad": {"type": "call_tool"},
            "bad_own": {"by": "x"},
        }.items():
            try:
                result = env.step(action)
            except ew.InvalidActionError as error:
                found[name] = error.message
                continue
            observation = result.obs
            module = type(observation).__module__.partition(".")[0]
            found[name] = [module, type(observation).__name__, observation.model_dump(mode="json"), result.reward]
        found["schema"] = env.action_schema()
        found["steps"] = env.state().step_count
    return found


async def _loops():
    """One handle on two event loops: the second `asyncio.run` finds the first loop closed."""
    async with ew.adapt(Toolroom()).aio as env:
        await env.reset()
        return (await env.step({"tool_name": "add", "arguments": {"a": 1}})).obs.result.data


def other(_):
    """What else can be played: only `step` overridden; the handle on a second loop."""
    with ew.adapt(Scored()) as env:
        env.reset()
        called = env.step({"tool_name": "echo", "arguments": {"text": "hi"}})
        nested = env.step(Nudge(by=1))
    handle = ew.adapt(Toolroom()).aio
    asyncio.run(handle.reset(seed=1))
    action = {"tool_name": "describe", "arguments": {}}
    totals = [asyncio.run(handle.step(action)).obs.result.data["total"] for _ in range(2)]
    asyncio.run(handle.close())
    return {
        "scored": [called.obs.result.data, called.reward],
        "nested": [nested.obs.result.data, nested.reward],
        "loops": totals,
        "aio": asyncio.run(_loops()),
    }


def played(part, url):
    """What a part saw; a failure concerns only the tests of that part."""
    try:
        return globals()[part.partition(":")[0]](url)
    except Exception:
        return {"failed": traceback.format_exc()}


if __name__ == "__main__":
    print(json.dumps({part: played(part, url) for part, url in (each.split("=", 1) for each in sys.argv[1:])}))

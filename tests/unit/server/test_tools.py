"""The tools of an environment, asked for without the `mcp` package; with it they are asked for in `tests/mcp`."""

import asyncio
import importlib.metadata
import json
import threading

import httpx
import pytest

import envweave as ew
from envweave.core.environment import AsyncEnvironment, Environment
from envweave.server import create_app
from envweave.server.session import Session
from envweave.tools import Tool, ToolEnvironment, ToolError, ToolObservation, ToolRegistry


def double(x: int) -> int:
    """Twice."""
    return 2 * x


class Shop(Environment):
    """An environment whose tools are what its factory was given."""

    def __init__(self, tools=None):
        if tools is not None:
            self.tools = tools
        self.resets = 0

    def reset(self, *, seed=None):
        self.resets += 1
        return self.resets

    def step(self, action):
        return self.resets, 1.0, action == "end", False, {}


def talking(env, *requests, headers=None, **settings):
    """What an application answers to JSON-RPC, one after the other: the result, or the error."""

    async def run():
        app = create_app(env, **settings)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client,
        ):
            found = []
            for method, params in requests:
                if method.startswith("/"):
                    verb = "GET" if params is None else "POST"
                    found.append((await client.request(verb, method, json=params)).json())
                    continue
                request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = (await client.post("/mcp", json=request)).json()
                found.append(answer.get("result", answer.get("error")))
            return found

    return asyncio.run(run())


LIST = ("tools/list", {})


def call(name, **arguments):
    return ("tools/call", {"name": name, "arguments": arguments})


@pytest.mark.parametrize(
    "tools",
    [[double], (double,), {"double": double}, ToolRegistry(double), [Tool.of(double)], lambda: [double]],
    ids=["list", "tuple", "mapping", "registry", "tool", "method"],
)
def test_tools_come_in_any_form(tools):
    listed, called = talking(lambda: Shop(tools), LIST, call("double", x=2))
    (tool,) = listed["tools"]
    assert tool["name"] == "double"
    assert tool["description"] == "Twice."
    assert tool["inputSchema"]["required"] == ["x"]
    assert set(tool) >= {"title", "outputSchema", "icons", "annotations", "meta", "execution"}
    assert called["data"] == 4
    assert called["content"][0]["text"] == "4"
    assert called["structured_content"] == {"result": 4}
    assert called["meta"] == {"fastmcp": {"wrap_result": True}}
    assert called["is_error"] is False


def test_without_tools_the_list_is_empty_and_none_can_be_called():
    listed, called = talking(Shop, LIST, call("double", x=2))
    assert listed == {"tools": []}
    assert called == {"code": -32603, "message": "no tool named 'double'", "data": None}


def test_tools_that_come_and_go_are_listed_as_they_are():
    class Growing(Shop):
        def __init__(self):
            super().__init__([double])

        def step(self, action):
            self.tools.append(Tool(name=f"tool{len(self.tools)}", function=dict))
            return super().step(action)

    act = ("/step", {"action": 1})
    first, _, _, second, _, third = talking(Growing, LIST, ("/reset", {}), act, LIST, act, LIST)
    assert [len(found["tools"]) for found in (first, second, third)] == [1, 2, 3]


def test_tools_of_an_async_environment_are_awaited_or_run_beside_the_loop():
    class Awaited(AsyncEnvironment):
        def __init__(self):
            self.tools = [self.wait, self.block]

        async def reset(self, *, seed=None):
            self.loop = threading.get_ident()
            return 0

        async def step(self, action):
            return 0

        async def wait(self) -> bool:
            await asyncio.sleep(0)
            return threading.get_ident() == self.loop

        def block(self) -> bool:
            return threading.get_ident() == self.loop

    assert [answer["data"] for answer in talking(Awaited, call("wait"), call("block"))] == [True, False]


def test_an_async_tool_of_a_sync_environment_is_waited_for():
    async def wait(x: int) -> int:
        await asyncio.sleep(0)
        return x

    assert talking(lambda: Shop([wait]), call("wait", x=3))[0]["data"] == 3


def test_the_first_call_begins_an_episode_and_later_ones_do_not():
    class Counting(Shop):
        @property
        def tools(self):
            return [self.count]

        def count(self):
            return self.resets

    answers = talking(Counting, LIST, call("count"), call("count"), ("/step", {"action": 1}), call("count"))
    assert [answer["data"] for answer in answers if "data" in answer] == [1, 1, 1]
    assert answers[3]["observation"] == 1


def test_after_the_end_a_reset_comes_first():
    episode = (("/reset", {}), ("/step", {"action": "end"}), call("double", x=1), ("/reset", {}), call("double", x=1))
    *_, over, _, called = talking(lambda: Shop([double]), *episode)
    assert over["message"].startswith("the episode of ")
    assert called["data"] == 2


class Desk(ToolEnvironment):
    penalty = -1.0

    def reset(self, *, seed=None):
        return ToolObservation("Empty the drawer.")

    @ew.tool
    def look(self) -> int:
        """How many things there are."""
        return 3

    @ew.tool
    def empty(self) -> ToolObservation:
        """Empty the drawer, which ends the episode."""
        return ToolObservation("emptied", reward=1.0, done=True)


def test_a_call_over_mcp_is_a_step_where_steps_are_calls():
    calls = (call("look"), call("lok"), call("look", at=3), ("/step", {"action": {"tool_name": "look"}}))
    *answers, state = talking(Desk, *calls, call("empty"), call("look"), ("/state", None))
    assert (answers[0]["data"], answers[0]["structured_content"]) == (3, {"result": 3})
    assert "did you mean 'look'?" in answers[1]["message"]
    assert "at" in answers[2]["message"]
    assert answers[3]["observation"]["result"] == 3
    assert answers[4]["data"] == "emptied"
    assert "reward" not in str(answers[4])
    assert answers[5]["message"].startswith("the episode of ")  # none is paid twice, by whichever way it comes
    assert state["step_count"] == 5


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (ValueError("no luck"), "fail: ValueError: no luck"),
        (ToolError("fs.read: the server is gone", kind="server_gone"), "fs.read: the server is gone"),
        (SystemExit(3), "fail: SystemExit: 3"),
        (ValueError("a lone surrogate \ud800"), "fail: ValueError: a lone surrogate \\ud800"),
    ],
)
def test_a_tool_that_fails_is_an_error_and_the_episode_goes_on(raised, message):
    def fail():
        raise raised

    failed, step = talking(lambda: Shop([fail]), call("fail"), ("/step", {"action": 1}))
    assert failed == {"code": -32603, "message": message, "data": None}
    assert step["reward"] == 1.0


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"x", object(), "\ud800"])
def test_what_json_cannot_carry_is_an_error(value):
    def give():
        return value

    assert talking(lambda: Shop([give]), call("give"))[0]["code"] == -32603


def test_tools_that_raise_when_they_are_looked_at_are_the_environments_failure():
    class Broken(Shop):
        @property
        def tools(self):
            raise RuntimeError("no tools today")

    assert "tools of Broken#0 raised RuntimeError: no tools today" in talking(Broken, LIST)[0]["message"]


def test_a_header_names_the_session_too():
    class Counting(Shop):
        def __init__(self):
            super().__init__([self.count])

        def count(self):
            return self.resets

    lost = talking(Counting, LIST, headers={"X-Envweave-Session": "nobody"})[0]
    assert lost["code"] == -32602


SPEAKS = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("headers", [SPEAKS, {"MCP-Protocol-Version": "2025-11-25"}])
def test_a_client_that_speaks_mcp_is_told_what_to_install(monkeypatch, headers):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("envweave.tools.mcp.requirement.version", missing)
    refused, listed = talking(lambda: Shop([double]), ("initialize", {}), LIST, headers=headers)
    assert refused["code"] == -32601
    assert "pip install 'envweave[mcp]'" in refused["message"]
    assert len(listed["tools"]) == 1, "OpenEnv's methods are answered all the same"


def test_one_that_does_not_is_told_nothing_of_it():
    error = talking(Shop, ("initialize", {}))[0]
    assert error == {"code": -32601, "message": "Method not found: initialize", "data": None}


class Gate(Shop):
    """Has a tool that waits until it is let go, and one that says who came before."""

    def __init__(self):
        super().__init__([self.wait, self.pass_by])
        self.waiting, self.open, self.passed = threading.Event(), threading.Event(), []

    def wait(self) -> None:
        self.waiting.set()
        assert self.open.wait(60)

    def pass_by(self, number: int) -> list[int]:
        self.passed.append(number)
        return self.passed


def at_the_gate(play):
    """Run `play(app, gate, post)`, where `post` sends JSON-RPC. Afterwards the gate is open, whatever happens."""
    gate = Gate()

    async def run():
        app = create_app(lambda: gate, env_name="gate")
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://test") as client,
        ):

            async def post(method, params):
                request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = (await client.post("/mcp", json=request)).json()
                return answer.get("result", answer.get("error"))

            try:
                return await play(app, gate, post)
            finally:
                gate.open.set()

    return asyncio.run(run())


def test_calls_that_wait_have_their_turn_in_order_and_are_looked_at_once(monkeypatch):
    looks = []
    call_of_session = Session.call

    def counted(self, *arguments):
        looks.append(arguments)
        call_of_session(self, *arguments)

    monkeypatch.setattr(Session, "call", counted)

    async def play(app, gate, post):
        first = asyncio.create_task(post(*call("wait")))
        await asyncio.to_thread(gate.waiting.wait, 60)
        rest = [asyncio.create_task(post(*call("pass_by", number=number))) for number in range(50)]
        while len(looks) < 51:
            await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(first, *rest)
        return gate.passed

    assert at_the_gate(play) == list(range(50))
    assert len(looks) == 101, "each when it came and when it was its turn"


def test_a_call_too_many_is_refused_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr("envweave.server.session.MOST_WAITING", 3)

    async def play(app, gate, post):
        first = asyncio.create_task(post(*call("wait")))
        await asyncio.to_thread(gate.waiting.wait, 60)
        rest = [asyncio.create_task(post(*call("pass_by", number=number))) for number in range(5)]
        refused = await asyncio.gather(*rest[3:])
        gate.open.set()
        await asyncio.gather(first, *rest[:3])
        return refused, gate.passed

    refused, passed = at_the_gate(play)
    assert [error["message"] for error in refused] == ["3 calls on gate#0 are waiting already"] * 2
    assert passed == [0, 1, 2]


def test_calls_that_wait_for_an_environment_that_is_lost_all_get_an_answer():
    async def play(app, gate, post):
        first = asyncio.create_task(post(*call("wait")))
        await asyncio.to_thread(gate.waiting.wait, 60)
        session = await app.state.sessions.default()
        rest = [asyncio.create_task(post(*call("pass_by", number=number))) for number in range(500)]
        while len(session._queue) < 500:
            await asyncio.sleep(0)
        session.give_up("takes too long")
        return await asyncio.gather(first, *rest)

    first, *rest = at_the_gate(play)
    assert "takes too long" in first["message"]
    assert all("is over" in error["message"] for error in rest)


def test_what_there_is_can_be_seen_over_a_websocket_while_a_call_runs():
    async def play(app, gate, post):
        session = (await post("openenv/session/create", {}))["session_id"]
        inbox, outbox = asyncio.Queue(), asyncio.Queue()
        scope = {"type": "websocket", "path": "/ws", "query_string": f"session_id={session}".encode(), "headers": []}
        stream = asyncio.create_task(app(scope, inbox.get, outbox.put))

        async def listed():
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            message = {"type": "websocket.receive", "text": json.dumps({"type": "mcp", "data": request})}
            await inbox.put(message)
            answer = json.loads((await asyncio.wait_for(outbox.get(), 10))["text"])
            return [tool["name"] for tool in answer["data"]["result"]["tools"]]

        await inbox.put({"type": "websocket.connect"})
        assert (await outbox.get())["type"] == "websocket.accept"
        before = await listed()
        method, params = call("wait")
        running = asyncio.create_task(post(method, {**params, "session_id": session}))
        await asyncio.to_thread(gate.waiting.wait, 60)
        meanwhile = await listed()
        gate.open.set()
        await running
        await inbox.put({"type": "websocket.disconnect"})
        await stream
        return before, meanwhile

    assert at_the_gate(play) == (["wait", "pass_by"], ["wait", "pass_by"])

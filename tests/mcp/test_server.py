"""An environment's tools at `/mcp`, for clients that speak MCP."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from websockets.sync.client import connect

from envweave.server import create_app, official, streamable
from envweave.server.official import manager_for
from envweave.testing.serving import running_server
from envweave.tools import ToolError
from envweave.tools.mcp import connect_mcp
from envweave.tools.mcp.requirement import require_mcp

HERE = Path(__file__).parent
SPEAKS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
MODES = ("auto", "legacy", "2026-07-28")
SERVED = {
    "thread": ("Notebook",),
    "process": ("Notebook", "--isolation", "process"),
    "async": ("AsyncNotebook",),
    "async process": ("AsyncNotebook", "--isolation", "process"),
}


def serving(name, *options):
    return running_server(f"pkg://environments:{name}", *options, cwd=HERE)


@pytest.fixture(scope="module", params=list(SERVED))
def served(request):
    with serving(*SERVED[request.param]) as server:
        yield server


@pytest.fixture(scope="module")
def server():
    with serving("Notebook") as found:
        yield found


def using(url, play, mode="auto", **headers):
    """Play with the official client."""

    async def run():
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                return await play(client)

    return asyncio.run(run())


def refused(url, play, **headers):
    """What the server says to it, with an error of the protocol."""

    async def caught(client):
        with pytest.raises(MCPError) as error:
            await play(client)
        return str(error.value)

    return using(url, caught, **headers)


def opened(server):
    return httpx.post(f"{server.url}/sessions").json()["session_id"]


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_lists_and_calls_tools_wherever_the_environment_runs(served, mode):
    async def play(client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["write"].description == "Write a note."
        assert tools["write"].input_schema["required"] == ["text"]
        first = (await client.call_tool("write", {"text": "ü"})).structured_content["result"]
        read = await client.call_tool("read", {})
        assert read.structured_content["result"][first - 1] == "tool:ü"
        assert json.loads(read.content[0].text) == read.structured_content["result"]
        return client.protocol_version

    assert using(served.url, play, mode) == ("2025-11-25" if mode == "legacy" else "2026-07-28")


@pytest.mark.parametrize("mode", MODES)
def test_what_goes_wrong_in_a_tool_is_a_result_that_the_agent_can_read(server, mode):
    async def play(client):
        found = []
        for name, arguments in (
            ("fail", {"why": "no luck"}),
            ("write", {}),
            ("move", {"to": {"x": "far"}}),
            ("unspeakable", {}),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            found.append(result.content[0].text)
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})
        assert not (await client.call_tool("write", {"text": "still here"})).is_error
        return found

    failed, missing, unfit, unspeakable = using(server.url, play, mode)
    assert failed == "fail: ValueError: no luck"
    assert missing == "write: text: field required"
    assert unfit.startswith("move: to.x: input should be a valid integer")
    assert "is a set, which has no JSON form" in unspeakable


def test_a_header_names_the_session_and_without_it_there_is_one_for_all(server):
    mine, header = opened(server), {"X-Envweave-Session": ""}

    async def write(client):
        return (await client.call_tool("write", {"text": "x"})).structured_content["result"]

    header["X-Envweave-Session"] = mine
    shared = using(server.url, write)
    assert using(server.url, write, **header) == 1
    assert [using(server.url, write), using(server.url, write, **header)] == [shared + 1, 2]
    step = httpx.post(f"{server.url}/step", json={"action": {"text": "y"}}, headers=header).json()
    assert step["observation"]["notes"] == 3, "the same environment"
    assert "no session 'nobody'" in refused(server.url, write, **{"X-Envweave-Session": "nobody"})


def test_a_tool_call_begins_an_episode_and_is_no_step(server):
    header = {"X-Envweave-Session": opened(server)}

    async def write(client):
        return await client.call_tool("write", {"text": "x"})

    using(server.url, write, **header)
    state = httpx.get(f"{server.url}/state", headers=header).json()
    assert state["step_count"] == 0
    assert state["episode_id"]
    for done in (False, False, True):
        step = httpx.post(f"{server.url}/step", json={"action": {"text": "y"}}, headers=header).json()
        assert step["done"] is done
        assert step["reward"] == 1.0
    over = using(server.url, write, **header)
    assert over.is_error
    assert "the episode of environments:Notebook#0 is over" in over.content[0].text
    httpx.post(f"{server.url}/reset", headers=header)
    assert using(server.url, write, **header).structured_content == {"result": 1}


def test_fifty_calls_at_once_on_one_environment_run_one_after_the_other(served):
    with connect_mcp({"notes": {"url": f"{served.url}/mcp"}}) as tools, ThreadPoolExecutor(50) as pool:
        write = tools.registry.functions()["write"]
        numbers = list(pool.map(write, map(str, range(50))))
    assert sorted(numbers) == list(range(min(numbers), min(numbers) + 50))


def test_who_plays_and_who_calls_tools_wait_for_each_other(served):
    """An episode has three steps, so each reset begins another; tools between a last step and a reset find it over."""
    header = {"X-Envweave-Session": opened(served)}

    def play(_):
        with httpx.Client(base_url=served.url, headers=header) as client:
            answers = []
            for _ in range(30):
                answers.append(client.post("/reset", json={}))
                answers += [client.post("/step", json={"action": {"text": "y"}}) for _ in range(2)]
            return [answer.status_code for answer in answers]

    with (
        connect_mcp({"notes": {"url": f"{served.url}/mcp", "headers": header}}) as tools,
        ThreadPoolExecutor(8) as pool,
    ):
        write = tools.registry.functions()["write"]
        player = pool.submit(play, None)
        written = list(pool.map(write, map(str, range(100))))
        assert set(player.result(60)) == {200}
    assert len(written) == 100


def test_who_plays_over_a_websocket_and_who_calls_tools_wait_for_each_other(served):
    """Quick steps take a short way of their own through the server; see `envweave.server.express`."""
    create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
    session = httpx.post(f"{served.url}/mcp", json=create).json()["result"]["session_id"]
    how = {"url": f"{served.url}/mcp", "headers": {"X-Envweave-Session": session}}

    def play():
        with connect(f"{served.ws_url}?session_id={session}", open_timeout=60) as socket:
            kinds = []
            for _ in range(50):
                for message in ({"type": "reset"}, *[{"type": "step", "data": {"text": "y"}}] * 2):
                    socket.send(json.dumps(message))
                    kinds.append(json.loads(socket.recv(60))["type"])
            return kinds

    with connect_mcp({"notes": how}) as tools, ThreadPoolExecutor(5) as pool:
        player = pool.submit(play)
        write = tools.registry.functions()["write"]
        written = list(pool.map(write, map(str, range(100))))
        assert set(player.result(100)) == {"observation"}
    assert len(written) == 100


def test_a_client_that_gives_up_in_the_middle_of_a_call_leaves_the_session_usable(tmp_path):
    with serving("Patient") as server, connect_mcp(f"{server.url}/mcp") as tools, ThreadPoolExecutor(2) as pool:
        call = {"name": "wait", "arguments": {"path": str(tmp_path / "flag")}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/mcp", json=request, headers=SPEAKS, timeout=1.0)
        assert (tmp_path / "flag.waiting").exists()
        with connect_mcp(f"{server.url}/mcp") as others:
            assert "write" in others.registry, "what there is can be seen meanwhile"
        waiting = pool.submit(tools.registry.call, "write", {"text": "after"})
        (tmp_path / "flag").touch()
        assert waiting.result(60) == 1


def test_a_server_that_is_told_to_stop_does_not_wait_for_a_tool_for_ever(tmp_path):
    with (
        serving("Patient", "--close-timeout", "0.5") as server,
        connect_mcp({"notes": {"url": f"{server.url}/mcp"}}) as tools,
        ThreadPoolExecutor(1) as pool,
    ):
        call = pool.submit(tools.registry.call, "wait", {"path": str(tmp_path / "never")})
        while not (tmp_path / "never.waiting").exists():
            pass
        server.process.terminate()
        assert server.process.wait(60) is not None
        with pytest.raises(ToolError, match=r"^notes\.wait: "):
            call.result(60)


def test_an_application_can_be_started_twice_each_time_on_another_loop():
    app = create_app(loaded_environment("Notebook"))

    async def play():
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://here") as http,
            Client(streamable_http_client("http://here/mcp", http_client=http)) as client,
        ):
            return (await client.call_tool("write", {"text": "x"})).structured_content

    assert [asyncio.run(play()), asyncio.run(play())] == [{"result": 1}] * 2


@asynccontextmanager
async def called_here(app):
    """A client of an application on the running loop, which the caller starts and ends."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://here", headers=SPEAKS) as http:
        yield lambda: http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})


def test_the_package_is_looked_for_once_and_loaded_beside_the_loop(monkeypatch):
    looks, threads = [], []
    monkeypatch.setattr(streamable, "require_mcp", lambda: looks.append(require_mcp()))

    def made(sessions):
        threads.append(threading.get_ident())
        return manager_for(sessions)

    monkeypatch.setattr(official, "manager_for", made)
    app = create_app(loaded_environment("Notebook"))

    async def play():
        async with app.router.lifespan_context(app), called_here(app) as ask:
            return [(await ask()).status_code for _ in range(3)]

    assert asyncio.run(play()) == [200] * 3
    assert len(looks) == 1
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


def test_a_server_that_stops_before_it_was_ready_lets_go_of_those_who_wait(monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def made(sessions):
        begun.set()
        assert go.wait(60)
        return manager_for(sessions)

    monkeypatch.setattr(official, "manager_for", made)
    app = create_app(loaded_environment("Notebook"))

    async def play():
        async with called_here(app) as ask:
            async with app.router.lifespan_context(app):
                waiting = asyncio.create_task(ask())
                await asyncio.to_thread(begun.wait, 60)
            answer = await asyncio.wait_for(waiting, 10)
            go.set()
            return answer.status_code, answer.json()["detail"]

    try:
        assert asyncio.run(play()) == (409, "the server is stopping")
    finally:
        go.set()


def loaded_environment(name):
    spec = importlib.util.spec_from_file_location("mcp_environments", HERE / "environments.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def test_the_answer_of_a_numbered_call_can_be_asked_for_again_after_a_tool_call(server):
    session = opened(server)
    header = {"X-Envweave-Session": session}

    async def write(client):
        return (await client.call_tool("write", {"text": "x"})).structured_content["result"]

    def call(path, number):
        return httpx.post(
            f"{server.url}/{path}", json={"action": {"text": "y"}} if path == "step" else {},
            headers={**header, "X-Envweave-Call": str(number)},
        ).json()  # fmt: skip

    call("reset", 1)
    first = call("step", 2)
    assert using(server.url, write, **header) == 2
    assert call("step", 2) == first, "it is not run again"
    assert call("step", 3)["observation"]["notes"] == 3


def test_an_environment_that_dies_in_a_tool_costs_an_episode_and_not_the_server():
    with serving("Notebook", "--isolation", "process") as server:

        async def play(client):
            died = await client.call_tool("die", {})
            again = await client.call_tool("write", {"text": "x"})
            return died, again

        died, again = using(server.url, play)
        assert died.is_error
        assert "the process of environments:Notebook#0 died in call_tool (exit code 7)" in died.content[0].text
        assert again.structured_content == {"result": 1}


def test_a_tool_that_hangs_ends_its_episode_and_not_the_server():
    with serving("Stuck", "--step-timeout", "0.5") as server:

        async def play(client):
            stuck = await client.call_tool("stick", {})
            return stuck, await client.call_tool("go", {})

        stuck, gone = using(server.url, play)
        assert stuck.is_error
        assert "took longer than 0.5 s" in stuck.content[0].text
        assert gone.structured_content == {"result": "on"}


def test_an_environment_without_tools_has_an_empty_list():
    with running_server("echo") as server:

        async def play(client):
            return (await client.list_tools()).tools

        assert using(server.url, play) == []


def test_tools_that_are_none_are_the_authors_mistake_and_are_named():
    with serving("Muddled") as server:

        async def play(client):
            return await client.list_tools()

        assert "the tools of environments:Muddled#0 cannot be used: 3 is not a tool" in refused(server.url, play)


def test_the_token_is_asked_for_here_too():
    with serving("Notebook", "--token", "a-long-token") as server:

        async def play(client):
            return (await client.call_tool("write", {"text": "x"})).structured_content

        assert using(server.url, play, Authorization="Bearer a-long-token") == {"result": 1}
        with connect_mcp(
            {"n": {"url": f"{server.url}/mcp", "headers": {"Authorization": "Bearer a-long-token"}}}
        ) as tools:
            assert tools.registry.call("write", {"text": "y"}) == 2
        with pytest.raises(ToolError, match="cannot be reached"):
            connect_mcp(f"{server.url}/mcp")
        assert httpx.post(f"{server.url}/mcp", headers={"Accept": "text/event-stream"}).status_code == 401


def test_pages_of_others_and_bodies_without_end_are_refused_here_too():
    with serving("Notebook", "--max-message-bytes", "2048") as server:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        url = f"{server.url}/mcp"
        assert httpx.post(url, json=ping, headers=SPEAKS).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert httpx.post(url, json=ping, headers={**SPEAKS, "Origin": "http://evil.example"}).status_code == 403
        rebound = {**SPEAKS, "Origin": "http://evil.example", "Host": "evil.example"}
        assert httpx.post(url, json=ping, headers=rebound).status_code == 403
        assert httpx.post(url, json={**ping, "x": "y" * 4000}, headers=SPEAKS).status_code == 413

        def chunks():
            yield from [b"x" * 1000] * 5

        assert httpx.post(url, content=chunks(), headers=SPEAKS).status_code == 413


def test_there_is_nothing_to_listen_to_and_no_session_to_delete(server):
    for method in ("GET", "DELETE"):
        answer = httpx.request(method, f"{server.url}/mcp", headers=SPEAKS)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "POST"


def test_garbage_gets_an_error_and_does_no_harm(server):
    for body in (
        b"",
        b"{",
        b"[]",
        b'{"jsonrpc":"2.0"}',
        b"\xff",
        b"[" * 5000,
        b'{"jsonrpc":"2.0","id":1,"method":"x"}',
    ):
        assert 200 <= httpx.post(f"{server.url}/mcp", content=body, headers=SPEAKS).status_code < 500
    assert "Traceback" not in server.errors()

    async def play(client):
        return len((await client.list_tools()).tools)

    assert using(server.url, play) == 6


def test_openenvs_json_rpc_is_answered_beside_it(server):
    def ask(method, **params):
        request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return httpx.post(f"{server.url}/mcp", json=request).json()

    before = ask("tools/call", name="write", arguments={"text": "x"})["result"]["data"]

    async def write(client):
        return (await client.call_tool("write", {"text": "y"})).structured_content

    assert using(server.url, write) == {"result": before + 1}
    assert ask("initialize")["error"] == {"code": -32601, "message": "Method not found: initialize", "data": None}


def test_the_inspector_of_others_sees_the_same(peers, server):
    script = peers.script("inspector-cli", "build/cli.js")
    call = ["--method", "tools/call", "--tool-name", "write", "--tool-arg", "text=from afar"]
    done = run_node(peers, script, "--cli", f"{server.url}/mcp", "--transport", "http", *call)
    assert json.loads(done)["structuredContent"]["result"] > 0


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28",) * 2])
def test_the_client_in_another_language_sees_the_same(peers, server, mode, version):
    package = Path(peers.script("client", "dist/index.mjs")).as_uri()
    seen = json.loads(run_node(peers, str(HERE / "visit.mjs"), package, f"{server.url}/mcp", mode))
    assert seen["tools"][:2] == ["write", "read"]
    assert seen["written"]["result"] > 0
    assert seen["failed"]["isError"]
    assert seen["failed"]["content"] == [{"type": "text", "text": "fail: ValueError: no luck"}]
    assert seen["version"] == version


def run_node(peers, *arguments):
    path = f"{Path(peers.node()).parent}{os.pathsep}{os.environ['PATH']}"
    command, env = [peers.node(), *arguments], {**os.environ, "PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_our_client_sees_what_our_environment_gives(served):
    with connect_mcp({"notes": {"url": f"{served.url}/mcp"}}) as tools:
        write = tools.registry["write"]
        assert write.output_schema == {"type": "integer"}
        count = tools.registry.call("write", {"text": "mine"})
        assert tools.registry.call("read")[count - 1] == "tool:mine"


def test_our_client_gets_pictures_and_texts_from_our_environment_as_they_were():
    with serving("Shed") as server, connect_mcp(f"{server.url}/mcp") as tools:
        assert tools.registry.call("test_simple_text") == "This is a simple text response for testing."
        text, picture, file = tools.registry.call("test_multiple_content_types")
        assert text == "Multiple content types test:"
        assert picture["mimeType"] == "image/png"
        assert file["resource"]["text"] == '{"test":"data"}'


def test_a_call_is_a_step_where_steps_are_calls():
    async def play(client):
        looked = await client.call_tool("look", {"shelf": "A"})
        lost = await client.call_tool("look", {"shelf": 7})
        shipped = await client.call_tool("ship", {})
        over = await client.call_tool("look", {"shelf": "A"})
        return looked, lost, shipped, over

    with running_server("pkg://envweave.examples.warehouse:Warehouse") as warehouse:
        looked, lost, shipped, over = using(warehouse.url, play)
        state = httpx.get(f"{warehouse.url}/state").json()
    assert isinstance(looked.structured_content, dict)
    assert [each.is_error for each in (looked, lost, shipped, over)] == [False, True, False, True]
    assert (shipped.content[0].text, shipped.structured_content) == ("shipped", None)
    assert "over" in over.content[0].text
    assert state["step_count"] == 3

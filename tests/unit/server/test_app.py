"""The application, called without a network."""

import asyncio
import sys
import threading
from contextlib import asynccontextmanager

import httpx
import pytest

from envweave.envs.coding import CodeAction, CodeObservation, CodeState
from envweave.envs.echo import EchoEnvironment
from envweave.envs.lineworld import LineWorldEnv
from envweave.errors import UnavailableError, UsageError
from envweave.server import create_app, create_fastapi_app


class Odd:
    """Does what it is told, and counts its ends."""

    SUPPORTS_CONCURRENT_SESSIONS = False
    closed = 0

    def __init__(self):
        self.ends = 0

    def reset(self, *, fail=False):
        if fail:
            raise ValueError("no reset today")
        return 0

    def step(self, action):
        if action == "fail":
            raise ValueError("no step today")
        if action == "object":
            return object()
        return action, 1.0, action == "end", False, {}

    def close(self):
        self.ends += 1


def playing(env, play, **settings):
    """Run `play(client)` on an application that was started, and end it."""

    async def run():
        app = create_app(env, **settings)
        async with running(app) as client:
            return await play(client)

    return asyncio.run(run())


@asynccontextmanager
async def running(app):
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        yield client


def statuses(env, *calls, **settings):
    async def play(client):
        return [(await client.request(method, path, json=body)).status_code for method, path, body in calls]

    return playing(env, play, **settings)


def test_both_names_are_the_same_function():
    assert create_app is create_fastapi_app


def test_without_fastapi_it_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("envweave.server.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(UnavailableError, match="'fastapi' is not installed") as caught:
        from envweave.server import create_app  # noqa: F401
    assert caught.value.hint == "pip install 'envweave[server]'"


def test_an_episode_goes_on_from_call_to_call():
    async def play(client):
        await client.post("/reset", json={"seed": 3})
        for _ in range(2):
            await client.post("/step", json={"action": {"move": 1}})
        return (await client.post("/step", json={"action": {"move": 1}})).json()

    assert playing(LineWorldEnv, play)["observation"]["t"] == 3


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/step", {}, 422),
        ("/step", [], 422),
        ("/reset", {"seed": "x"}, 422),
        ("/reset", {"colour": "red"}, 422),
        ("/reset", {"fail": True}, 500),
        ("/render", {}, 422),
        ("/respond", {"request_id": "x", "value": 1}, 409),
        ("/restore", {"snapshot": "x"}, 422),
        ("/restore", {}, 422),
        ("/sessions", {"deadline": -1}, 422),
        ("/sessions", {"arguments": {"a": 1}}, 422),
        ("/sessions", [], 422),
    ],
)
def test_each_mistake_has_its_status(path, body, status):
    assert statuses(Odd, ("POST", path, body)) == [status]


def test_a_failure_of_the_environment_ends_the_episode():
    calls = [("POST", "/reset", {}), ("POST", "/step", {"action": "fail"}), ("POST", "/step", {"action": 1})]
    assert statuses(Odd, *calls) == [200, 500, 409]
    assert statuses(Odd, ("POST", "/reset", {}), ("POST", "/step", {"action": "object"})) == [200, 500]


def test_calls_are_numbered_and_run_once():
    async def play(client):
        session = (await client.post("/sessions")).json()["session_id"]

        async def call(number, path, body):
            headers = {"X-Envweave-Session": session, "X-Envweave-Call": str(number)}
            return await client.post(path, json=body, headers=headers)

        await call(1, "/reset", {})
        first = await call(2, "/step", {"action": {"message": "a"}})
        again = await call(2, "/step", {"action": {"message": "b"}})
        late = await call(4, "/step", {"action": {"message": "c"}})
        assert first.content == again.content
        assert first.json()["observation"]["metadata"]["step"] == 1
        assert late.status_code == 409
        assert (await client.delete(f"/sessions/{session}")).status_code == 200
        assert (await call(3, "/step", {"action": {"message": "c"}})).status_code == 404

    playing(EchoEnvironment, play)


def test_a_number_never_gets_the_answer_of_another_call():
    async def play(client):
        session = (await client.post("/sessions")).json()["session_id"]
        named = {"X-Envweave-Session": session}
        numbered = {**named, "X-Envweave-Call": "1"}
        assert (await client.post("/reset", headers=numbered)).status_code == 200
        await client.get("/state", headers=named)
        return (await client.post("/reset", headers=numbered)).status_code

    assert playing(EchoEnvironment, play) in (409, 422), "its answer is gone"


def test_a_session_that_is_called_like_the_parameter_of_the_route_is_not_found():
    async def play(client):
        answer = await client.delete("/sessions/%7Bsession_id%7D")
        return answer.status_code, answer.json()["error"]["code"]

    assert playing(EchoEnvironment, play) == (404, "transport.session_lost")


def test_openenvs_word_for_the_number_of_sessions_is_understood():
    calls = [("POST", "/sessions", {})] * 3
    assert statuses(EchoEnvironment, *calls, max_concurrent_envs=2) == [201, 201, 503]
    assert statuses(Odd, *calls[:2]) == [201, 503]


def test_openenvs_words_for_types_are_understood():
    async def schema(client):
        return (await client.get("/schema")).json()

    words = {"action_cls": CodeAction, "observation_cls": CodeObservation, "state_cls": CodeState}
    found = playing(Odd, schema, **words)
    assert found == playing(Odd, schema, action_type=CodeAction, observation_type=CodeObservation, state_type=CodeState)
    assert [found[name]["title"] for name in ("action", "observation", "state")] == [
        "CodeAction", "CodeObservation", "CodeState",
    ]  # fmt: skip


def test_what_could_not_work_is_refused_at_the_start():
    with pytest.raises(UsageError, match="instances of Odd disturb each other"):
        create_app(Odd, max_concurrent_envs=2)
    with pytest.raises(UsageError, match="there is no setting 'gradio_builder'"):
        create_app(Odd, gradio_builder=None)


def test_an_instance_is_closed_with_the_server_and_not_before():
    env = Odd()

    async def play(client):
        for _ in range(2):
            session = (await client.post("/sessions")).json()["session_id"]
            assert (await client.delete(f"/sessions/{session}")).status_code == 200
        return env.ends

    assert playing(env, play) == 0
    assert env.ends == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("{", -32700),
        ("[]", -32700),
        ('{"method":"tools/list"}', -32600),
        ('{"jsonrpc":"2.0","method":1}', -32600),
        ('{"jsonrpc":"2.0","method":"initialize","id":1}', -32601),
        ('{"jsonrpc":"2.0","method":"tools/call","id":1,"params":{"name":"x"}}', -32603),
        ('{"jsonrpc":"2.0","method":"tools/call","id":1,"params":{}}', -32602),
        ('{"jsonrpc":"2.0","method":"tools/call","id":1,"params":{"name":"x","arguments":[]}}', -32602),
        ('{"jsonrpc":"2.0","method":"tools/call","id":1,"params":{"name":"x","session_id":"x"}}', -32602),
        ('{"jsonrpc":"2.0","method":"tools/list","id":1,"params":{"session_id":"x"}}', -32602),
        ('{"jsonrpc":"2.0","method":"openenv/session/close","id":1}', -32602),
    ],
)
def test_json_rpc_has_its_own_errors(request_, code):
    async def play(client):
        answer = await client.post("/mcp", content=request_)
        assert answer.status_code == 200
        return answer.json()["error"]["code"]

    assert playing(EchoEnvironment, play) == code


def test_a_tool_clients_session_counts_like_any_other():
    create = {"jsonrpc": "2.0", "method": "openenv/session/create", "id": 1}

    async def play(client):
        first = (await client.post("/mcp", json=create)).json()["result"]["session_id"]
        full = (await client.post("/mcp", json=create)).json()["error"]
        assert full["code"] == -32000
        assert full["data"] == {"active_sessions": 1, "max_sessions": 1}
        close = {**create, "method": "openenv/session/close", "params": {"session_id": first}}
        assert (await client.post("/mcp", json=close)).json()["result"] == {"session_id": first, "closed": True}
        assert "result" in (await client.post("/mcp", json=create)).json()

    playing(EchoEnvironment, play, max_sessions=1)


def test_calls_without_a_session_take_no_place_where_environments_live_side_by_side():
    async def play(client):
        assert (await client.post("/reset")).status_code == 200
        first = await client.post("/sessions")
        full = await client.post("/sessions")
        assert (first.status_code, full.status_code) == (201, 503)
        assert "1/1 sessions active" in full.json()["message"]
        assert (await client.post("/step", json={"action": {"message": "hi"}})).json()["observation"]["metadata"][
            "step"
        ] == 1
        assert (await client.delete(f"/sessions/{first.json()['session_id']}")).status_code == 200
        assert (await client.post("/sessions")).status_code == 201

    playing(EchoEnvironment, play, max_sessions=1)


@pytest.mark.parametrize(
    ("calls", "status"),
    [
        ([("GET", "/state")], 201),
        ([("POST", "/mcp")], 201),
        ([("POST", "/reset")], 503),
        ([("POST", "/reset"), ("POST", "/step")], 201),
    ],
    ids=["state", "tools", "in an episode", "after an episode"],
)
def test_where_they_do_not_the_default_session_makes_way_unless_it_is_in_an_episode(calls, status):
    bodies = {"/mcp": {"jsonrpc": "2.0", "method": "tools/list"}, "/step": {"action": "end"}}

    async def play(client):
        for method, path in calls:
            assert (await client.request(method, path, json=bodies.get(path))).status_code == 200
        return (await client.post("/sessions")).status_code

    assert playing(Odd, play) == status


def test_a_step_without_a_reset_begins_an_episode_and_the_next_goes_on_with_it():
    async def play(client):
        steps = [await client.post("/step", json={"action": {"move": 1}}) for _ in range(2)]
        return [step.json()["observation"]["t"] for step in steps]

    assert playing(LineWorldEnv, play) == [1, 2]


def test_with_numbered_calls_a_step_before_the_reset_is_refused():
    async def play(client):
        return (await client.post("/step", json={"action": 1}, headers={"X-Envweave-Call": "1"})).status_code

    assert playing(Odd, play) == 409


def test_who_comes_while_another_leaves_waits_for_its_room():
    leaving, left = threading.Event(), threading.Event()

    class Slow(EchoEnvironment):
        def close(self):
            leaving.set()
            left.wait(30)

    async def play(client):
        first = (await client.post("/sessions")).json()["session_id"]
        going = asyncio.create_task(client.delete(f"/sessions/{first}"))
        await asyncio.to_thread(leaving.wait, 30)
        coming = asyncio.create_task(client.post("/sessions"))
        assert (await client.get("/health")).status_code == 200
        assert not coming.done()
        left.set()
        await going
        return (await coming).status_code

    assert playing(Slow, play, max_sessions=1) == 201

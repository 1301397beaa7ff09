"""Who may branch: a player that could go back would guess until it is right."""

import httpx
import pytest

import envweave as ew
from envweave.client import HTTPEnvClient
from envweave.errors import UnsupportedError
from envweave.testing import running_server


@pytest.fixture(scope="module")
def server():
    with running_server("repl") as served:
        yield served


@pytest.fixture(scope="module")
def trainers():
    with running_server("repl", "--allow-branching") as served:
        yield served


CONNECTIONS = [pytest.param(ew.connect, id="websocket"), pytest.param(HTTPEnvClient, id="http")]


@pytest.mark.parametrize("connect", CONNECTIONS)
@pytest.mark.parametrize("call", ["snapshot", "fork"])
def test_a_plain_server_does_not_let_its_clients_branch_and_names_the_option(server, connect, call):
    with connect(server.url) as env:
        env.reset(expected_answer="42")
        with pytest.raises(UnsupportedError, match=f"this server does not allow {call}") as caught:
            getattr(env, call)()
        assert "--allow-branching" in caught.value.hint
        assert "allow_branching=True" in caught.value.hint
        assert env.step({"code": "FINAL(42)"}).reward == 1.0, "the session goes on"


@pytest.mark.parametrize("name", ["snapshot", "restore", "fork"])
def test_plain_http_without_a_client_of_ours_cannot_branch_either(server, name):
    httpx.post(f"{server.url}/reset", json={}).raise_for_status()
    refused = httpx.post(f"{server.url}/{name}", json={"snapshot": "x"} if name == "restore" else {})
    assert refused.status_code == 422
    assert refused.json()["error"]["type"] == "UnsupportedError"
    assert f"/{name}" not in httpx.get(f"{server.url}/openapi.json").json()["paths"]


def test_a_player_cannot_come_back_from_a_wrong_answer(server):
    with ew.connect(server.url) as env:
        env.reset(expected_answer="42")
        assert env.step({"code": "FINAL(41)"}).reward == 0.0
        with pytest.raises(UnsupportedError):
            env.snapshot()
        with pytest.raises(ew.errors.ResetNeededError):
            env.step({"code": "FINAL(42)"})


@pytest.mark.parametrize("connect", CONNECTIONS)
def test_a_server_for_trainers_branches(trainers, connect):
    with connect(trainers.url) as env:
        env.reset(expected_answer="42")
        kept = env.snapshot()
        with env.fork() as twin:
            assert twin.step({"code": "FINAL(41)"}).reward == 0.0
        env.step({"code": "x = 1"})
        env.restore(kept)
        assert env.step({"code": "FINAL(42)"}).reward == 1.0


def test_a_server_that_is_started_for_a_handle_belongs_to_the_trainer():
    with ew.make("coding", backend="subprocess") as env:
        env.reset()
        env.step({"code": "x = 7"})
        with env.fork() as twin:
            assert twin.step({"code": "x"}).obs.stdout == "7\n"

"""Environments written for OpenEnv are served unchanged, and played by OpenEnv's own client."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from envweave.testing.serving import running_server

SCRIPTS = Path(__file__).parent / "openenv_client"
MANY = ("sync", "async", "half", "single", "class", "factory")
ONE_AT_A_TIME = ("lonely", "instance")


@contextmanager
def ported_servers(closed_file):
    """Servers whose files came from OpenEnv, in a process that says their URLs when they run."""
    env = {**os.environ, "CLOSED_FILE": str(closed_file)}
    command = [sys.executable, "-W", "ignore", str(SCRIPTS / "ported.py")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def closed_file(tmp_path_factory):
    return tmp_path_factory.mktemp("closed") / "closed"


@pytest.fixture(scope="module")
def urls(closed_file):
    with ExitStack() as stack:
        ported = stack.enter_context(ported_servers(closed_file))
        served = stack.enter_context(running_server("pkg://environments:AwaitingEnvironment", cwd=SCRIPTS))
        yield {**json.loads(ported.stdout.readline()), "served": served.url}


@pytest.fixture(scope="module")
def played(urls):
    """What OpenEnv's client saw, by server."""
    command = [sys.executable, str(SCRIPTS / "play.py"), *(f"served:{name}={url}" for name, url in urls.items())]
    command += [f"served:{name}_again={urls[name]}" for name in ONE_AT_A_TIME]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
    return {part.removeprefix("served:"): seen for part, seen in json.loads(done.stdout).items()}


EVERY = (*MANY, *ONE_AT_A_TIME, "single_factory", "served", "lonely_again", "instance_again")


@pytest.mark.parametrize("name", EVERY)
def test_an_environment_of_openenv_plays_whole_episodes(played, name):
    seen = played[name]
    assert seen["reset"]["observation"]["echoed_message"] == "hello"
    assert seen["reset"]["reward"] == 0.0
    assert [step["observation"]["echoed_message"] for step in seen["steps"]] == ["a", "bb", "stop"]
    assert [step["done"] for step in seen["steps"]] == [False, False, True]
    assert seen["state"] == {"episode_id": "mine", "step_count": 3, "messages": ["a", "bb", "stop"]}
    assert seen["again"]["observation"]["echoed_message"] == "ready"


@pytest.mark.parametrize("name", EVERY)
def test_its_transform_is_applied_once(played, name):
    assert [step["reward"] for step in played[name]["steps"]] == [1.1, 1.2, 1.4]


@pytest.mark.parametrize(
    ("name", "reset", "steps"),
    [("sync", False, False), ("async", True, True), ("half", False, True), ("served", True, True)],
)
def test_what_it_overrides_as_async_runs_on_the_loop_and_the_rest_does_not(played, name, reset, steps):
    assert played[name]["reset"]["observation"]["loops"] is reset
    assert {step["observation"]["loops"] for step in played[name]["steps"]} == {steps}


@pytest.mark.parametrize("name", ["single", "single_factory"])
def test_one_that_wants_a_single_thread_is_built_and_called_on_it(played, name):
    assert [step["observation"]["metadata"]["threads"] for step in played[name]["steps"]] == [1, 1, 1]


def test_its_close_is_called_when_the_session_ends(played, closed_file):
    assert len(closed_file.read_text().splitlines()) >= len(MANY)


@pytest.mark.parametrize("name", ["sync", "async", "instance", "served"])
def test_its_models_are_in_the_schema(urls, played, name):
    schema = httpx.get(f"{urls[name]}/schema").json()
    assert schema["action"]["properties"]["message"] == {"title": "Message", "type": "string"}
    assert "echoed_message" in schema["observation"]["properties"]


def test_the_name_and_the_state_class_given_to_create_app_are_used(urls):
    assert httpx.get(f"{urls['sync']}/metadata").json()["name"] == "story"
    assert "messages" in httpx.get(f"{urls['sync']}/schema").json()["state"]["properties"]


@pytest.mark.parametrize(("name", "most"), [("sync", 4), ("lonely", 1)])
def test_there_is_room_for_as_many_sessions_as_the_server_file_says(urls, played, name, most):
    opened = []
    with httpx.Client(base_url=urls[name]) as client:
        try:
            for _ in range(most):
                made = client.post("/sessions")
                assert made.status_code == 201, made.text
                opened.append(made.json()["session_id"])
            full = client.post("/sessions")
            assert full.status_code == 503
            assert full.json()["detail"] == f"server at capacity: {most}/{most} sessions active"
        finally:
            for session in opened:
                client.delete(f"/sessions/{session}")


def test_all_sessions_over_http_are_the_one_of_the_instance(urls, played):
    with httpx.Client(base_url=urls["instance"]) as client:
        first, second = (client.post("/sessions").json() for _ in range(2))
        assert first["shared"] is second["shared"] is True
        assert first["session_id"] == second["session_id"]
        for _ in range(2):
            assert client.delete(f"/sessions/{first['session_id']}").status_code == 200
        assert client.delete(f"/sessions/{first['session_id']}").status_code == 404

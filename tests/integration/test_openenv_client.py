"""An unmodified OpenEnv client plays against `envweave serve`: that of 0.10, and the frozen `openenv-core` 0.3.0."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.sync.client import connect

from envweave.testing.serving import running_server

pytestmark = pytest.mark.timeout(400)  # processes import all of OpenEnv, which takes long where others work
SCRIPTS = Path(__file__).parent / "openenv_client"
PARTS = {
    "echo": ("echo_sync", "echo_async", "echo_together"),
    "lineworld": ("walk", "walk_async", "errors"),
    "trouble": ("trouble",),
    "full": ("capacity",),
}


def play(*parts, path=None):
    """Run the script with an OpenEnv from the path, or with the one that is installed."""
    env = {**os.environ, "PYTHONPATH": str(path)} if path else None
    command = [sys.executable, str(SCRIPTS / "play.py"), *parts]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def servers():
    with ExitStack() as stack:
        yield {
            "echo": stack.enter_context(running_server("echo")),
            "lineworld": stack.enter_context(running_server("lineworld")),
            "trouble": stack.enter_context(running_server("pkg://trouble:TroubleEnvironment", cwd=SCRIPTS)),
            "workshop": stack.enter_context(running_server("pkg://workshop:WorkshopEnvironment", cwd=SCRIPTS)),
            "full": stack.enter_context(running_server("echo", "--max-sessions", "1")),
        }


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """Where `openenv-core` 0.3.0 is installed, over what is installed here already."""
    folder = tmp_path_factory.mktemp("openenv-core")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, "openenv-core==0.3.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    if done.returncode == 0:
        return folder
    reason = f"openenv-core 0.3.0 cannot be installed: {done.stderr.strip()[-300:]}"
    if "openenv" in os.environ.get("ENVWEAVE_REQUIRE", ""):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module", params=["0.10", "0.3"])
def seen(request, servers):
    """What a client of OpenEnv saw, by part."""
    path = request.getfixturevalue("frozen") if request.param == "0.3" else None
    parts = [f"{part}={servers[name].url}" for name, parts in PARTS.items() for part in parts]
    if request.param == "0.10":
        parts += [f"tools={servers['echo'].url}", f"workshop={servers['workshop'].url}"]
    return play(*parts, path=path)


@pytest.mark.parametrize("part", ["echo_sync", "echo_async"])
def test_a_typed_client_plays_echo(seen, part):
    played = seen[part]
    assert played["reset"]["observation"]["echoed_message"] == "Echo environment ready!"
    assert played["reset"]["reward"] == 0.0
    assert [step["reward"] for step in played["steps"]] == [1.3, 0.0, 1.0]
    assert [step["observation"]["message_length"] for step in played["steps"]] == [13, 0, 10]
    assert played["steps"][0]["observation"]["metadata"] == {"original_message": "Hello, World!", "step": 1}
    assert not any(step["done"] for step in played["steps"])
    assert played["state"]["step_count"] == 3


def test_an_episode_id_given_at_reset_is_in_the_state(seen):
    assert seen["echo_sync"]["state"]["episode_id"] == "mine"
    assert seen["echo_async"]["state"]["episode_id"]


def test_clients_at_the_same_time_have_a_session_each(seen):
    assert seen["echo_together"] == list(range(8))


def test_a_generic_client_plays_whole_episodes_one_after_the_other(seen):
    toward, away = seen["walk"]["episodes"]
    assert [step["done"] for step in toward] == [False] * 5 + [True]
    assert toward[0]["reward"] is None
    assert toward[-1]["reward"] == 1.0
    assert len(away) == 21
    assert away[-1]["reward"] == -1.0
    assert away[-1]["done"]
    assert toward[0] == away[0], "the same seed"
    assert set(toward[1]["observation"]) == {"pos", "goal", "t", "metadata"}


def test_a_generic_client_plays_a_whole_episode_asynchronously(seen):
    assert seen["walk_async"] == seen["walk"]["episodes"][0]


def test_a_step_after_the_end_is_an_error_that_the_client_understands(seen):
    assert "is over (code: EXECUTION_ERROR)" in seen["walk"]["after"]
    assert seen["walk"]["again"]["observation"]["t"] == 0


@pytest.mark.parametrize(
    ("mistake", "message", "code"),
    [
        ("option", "reset has no option 'colour'", "EXECUTION_ERROR"),
        ("seed", "seed is 'x'", "EXECUTION_ERROR"),
        ("action", "should be -1 or 1, got 7", "VALIDATION_ERROR"),
        ("field", "field required", "VALIDATION_ERROR"),
    ],
)
def test_a_mistake_of_the_client_is_told_with_its_reason(seen, mistake, message, code):
    told = seen["errors"][mistake]
    assert told.startswith("RuntimeError: Server error: ")
    assert message in told
    assert told.endswith(f"(code: {code})")


def test_a_step_before_the_first_reset_begins_an_episode(seen):
    assert seen["errors"]["early"] == 1


def test_the_session_goes_on_after_mistakes(seen):
    assert seen["errors"]["alive"] == 1


def test_an_environment_that_raises_is_an_execution_error_and_its_session_lives(seen):
    found = seen["trouble"]
    assert "no reset today" in found["reset"]
    assert "the environment fell over" in found["step"]
    assert "is over" in found["over"]
    assert all("(code: EXECUTION_ERROR)" in found[call] for call in ("reset", "step", "over"))
    assert found["alive"] == "hi"


def test_a_client_for_whom_there_is_no_room_is_told_so_and_the_others_notice_nothing(seen):
    found = seen["capacity"]
    assert "server at capacity: 1/1 sessions active" in found["refused"]
    assert "(code: CAPACITY_REACHED)" in found["refused"]
    assert found["alive"] == "still here"
    assert found["later"] == "Echo environment ready!"


@pytest.mark.parametrize("seen", ["0.10"], indirect=True)  # 0.3 has no attached sessions
def test_a_tool_client_makes_its_session_over_http_and_plays_it_over_the_websocket(seen):
    found = seen["tools"]
    assert found["steps"] == 0
    assert found["listed"] == []
    assert "no tool named 'echo'" in found["called"]


@pytest.mark.parametrize("seen", ["0.10"], indirect=True)
def test_a_tool_client_that_hangs_up_keeps_its_session_until_it_closes_it(seen):
    found = seen["tools"]
    assert found["closed"]["result"] == {"session_id": found["session"], "closed": True}
    assert found["again"]["error"]["code"] == -32602


@pytest.mark.parametrize("seen", ["0.10"], indirect=True)
def test_a_tool_client_lists_the_tools_of_an_environment(seen):
    collect, words, _ = seen["workshop"]["listed"]
    assert collect["name"] == "collect"
    assert collect["description"] == "Collect a word."
    assert collect["input_schema"]["properties"] == {"word": {"type": "string", "description": "Any word."}}
    assert words["name"] == "words"


@pytest.mark.parametrize("seen", ["0.10"], indirect=True)
def test_a_tool_client_calls_tools_in_a_session_of_its_own(seen):
    found = seen["workshop"]
    assert found["called"][:3] == [1, 2, 1]
    assert found["called"][3] == {"words": ["a", "é"]}
    assert found["over_socket"]["result"]["data"] == {"words": ["a", "é"]}
    assert found["over_socket"]["result"]["structured_content"] == {"words": ["a", "é"]}
    assert found["steps"] == 0, "a tool call is no step"


def test_tools_are_called_on_a_websocket_of_their_own_with_a_session_for_each_connection(servers):
    address = servers["workshop"].url.replace("http", "ws", 1) + "/mcp"

    def ask(ws, method, **params):
        ws.send(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))
        return json.loads(ws.recv(timeout=30))

    with connect(address) as first, connect(address) as second:
        listed = ask(first, "tools/list")["result"]["tools"]
        called = [ask(ws, "tools/call", name="collect", arguments={"word": "a"}) for ws in (first, first, second)]
        failed = ask(first, "tools/call", name="fail")
        assert ask(first, "tools/call", name="words")["result"]["data"] == {"words": ["a", "a"]}
    assert [tool["name"] for tool in listed] == ["collect", "words", "fail"]
    assert [one["result"]["data"] for one in called] == [1, 2, 1]
    assert failed == {"jsonrpc": "2.0", "id": 7, "error": failed["error"]}
    assert (failed["error"]["code"], failed["error"]["message"]) == (-32603, "fail: ValueError: no luck")


@pytest.mark.parametrize("seen", ["0.10"], indirect=True)
def test_a_tool_client_is_told_what_went_wrong(seen):
    wrong = seen["workshop"]["wrong"]
    assert "no tool named 'nothing'" in wrong["unknown"]
    assert "collect: word: field required" in wrong["missing"]
    assert "fail: ValueError: no luck" in wrong["failing"]

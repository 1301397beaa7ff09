"""OpenEnv's environments with MCP tools: in this process, on our server for OpenEnv's clients, and for ours.

What a client sees on our server is compared with what it sees on OpenEnv's own.
"""

import json
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import envweave as ew
from envweave.testing.serving import running_server

pytestmark = pytest.mark.timeout(400)  # processes import all of OpenEnv, which takes long where others work
SCRIPTS = Path(__file__).parent / "openenv_client"
OURS = ("tools", "served", "processes")
"""`create_app(Toolroom, CallToolAction, CallToolObservation)`, and `envweave serve`, in threads and in processes."""
OTHERS = ("base", "untyped", "factory", "own")
"""`create_app` with `Action`, without types, with a function, and with a type of the environment's own."""


@contextmanager
def toolrooms():
    """A process that says the URLs of its servers when they run."""
    command = [sys.executable, "-W", "ignore", str(SCRIPTS / "toolroom.py")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def urls():
    room = "pkg://toolroom:Toolroom"
    with ExitStack() as stack:
        made = stack.enter_context(toolrooms())
        served = stack.enter_context(running_server(room, cwd=SCRIPTS))
        processes = stack.enter_context(running_server(room, "--isolation", "process", cwd=SCRIPTS))
        yield {**made, "served": served.url, "processes": processes.url}


def play(parts):
    """Run the script in a process: what it saw, by part."""
    command = [sys.executable, "-W", "ignore", str(SCRIPTS / "toolplay.py"), *(f"{k}={v}" for k, v in parts.items())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=SCRIPTS)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


PARTS = ("steps", "production", "together", "http", "socket", "inside", "sessions", "ours")


@pytest.fixture(scope="module")
def seen(urls):
    """By part and server."""
    parts = {f"{part}:{name}": urls[name] for name in ("theirs", *OURS) for part in PARTS}
    parts |= {f"{part}:{name}": urls[name] for name in OTHERS for part in ("steps", "production", "inside")}
    parts |= {f"own:{name}": urls[name] for name in ("own", "untyped", "served", "processes")}
    parts |= {f"room:{name}": urls[name] for name in ("narrow", "alone")}
    parts |= {f"by_hand:{name}": urls[name] for name in ("theirs_by_hand", "by_hand")}
    return play({**parts, "scored:scored": urls["scored"]})


@pytest.fixture(scope="module")
def local():
    parts = {f"local:{which}": which for which in ("adapt", "class", "id", "declared")}
    return play({**parts, "other": ""})


# In this process.


@pytest.mark.parametrize("which", ["adapt", "class", "id"])
def test_tools_are_called_by_steps_with_openenvs_actions_and_with_data(local, which):
    found = local[f"local:{which}"]
    assert found["reset"] == "Nudged"
    module, kind, fields, reward = found["class"]
    assert (module, kind, reward) == ("openenv", "CallToolObservation", None)
    assert fields["result"]["data"] == 2
    assert found["data"][2]["result"]["data"] == {"total": 7, "resets": 1}
    assert [tool["name"] for tool in found["list_data"][2]["tools"]][:2] == ["add", "describe"]
    assert found["list_class"] == found["list_data"]
    assert found["list_data"][:2] == ["openenv", "ListToolsObservation"]


def test_a_model_calls_the_tools_of_an_environment_written_for_openenv(urls):
    def call(name, arguments, id):
        return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}

    with ew.make(urls["served"], chat=True) as env:
        first = env.reset()
        assert "add" in [tool["function"]["name"] for tool in first.obs.tools]
        calls = [call("add", '{"a": 2, "b": 3}', "one"), call("none", "{}", "two")]
        told = env.step({"role": "assistant", "content": None, "tool_calls": calls}).obs.messages
        assert [message["tool_call_id"] for message in told] == ["one", "two"]
        assert "5" in told[0]["content"]
        assert "tool_not_found" in told[1]["content"]


@pytest.mark.parametrize("which", ["adapt", "class", "id"])
def test_the_environments_own_actions_go_on_to_work(local, which):
    found = local[f"local:{which}"]
    assert [found[name][1:] for name in ("own", "own_data")] == [
        ["Nudged", {"done": False, "reward": 1.0, "metadata": {}, "total": total}, 1.0] for total in (9, 12)
    ]
    assert "action does not fit Nudge: by: input should be a valid integer" in found["bad_own"]
    assert found["steps"] == 8


@pytest.mark.parametrize("which", ["adapt", "declared"])
def test_a_tool_that_fails_is_an_observation_and_an_action_that_names_none_is_refused(local, which):
    found = local[f"local:{which}"]
    assert found["unknown_tool"][2]["error"] == {"error_type": "tool_not_found", "message": "Unknown tool: 'nothing'"}
    assert found["timeout"][2]["error"]["error_type"] == "timeout"
    assert found["bad"] == "action does not fit CallToolAction: tool_name: field required"


def test_an_environment_that_is_declared_to_be_played_by_tools_takes_nothing_else(local):
    found = local["local:declared"]
    assert found["class"][2]["result"]["data"] == 2
    assert "tool_name: field required" in found["own_data"]
    assert "action does not fit CallToolAction" in found["own"]


def test_the_action_schema_describes_every_form(local):
    by_name = {part["title"]: part for part in local["local:adapt"]["schema"]["anyOf"]}
    assert set(by_name) == {"CallToolAction", "ListToolsAction", "Nudge"}
    assert by_name["CallToolAction"]["required"] == ["tool_name"]
    assert by_name["ListToolsAction"]["properties"]["type"]["const"] == "list_tools"
    declared = local["local:declared"]["schema"]
    assert [part["title"] for part in declared["anyOf"]] == ["CallToolAction", "ListToolsAction"]
    assert {"tool_name", "arguments"} <= declared["properties"].keys(), "where clients of OpenEnv look for them"
    assert declared["properties"]["type"]["enum"] == ["call_tool", "list_tools"]


def test_a_step_that_the_author_overrides_is_used_also_where_step_async_would_go_around_it(local, seen):
    assert local["other"]["scored"] == ["hi", 7.0]
    assert local["other"]["nested"] == ["own", 7.0]
    assert seen["scored:scored"] == ["hi", 7.0, "own"]


def test_a_handle_goes_on_on_another_event_loop(local):
    assert local["other"]["loops"] == [1, 1]
    assert local["other"]["aio"] == 2


# On our server, as on OpenEnv's.


@pytest.mark.parametrize("name", [*OURS, *OTHERS])
def test_a_tool_client_that_steps_sees_what_it_sees_on_openenvs_server(seen, name):
    assert seen[f"steps:{name}"] == seen["steps:theirs"]


def test_a_tool_client_that_steps_sees_tools_and_errors(seen):
    found = seen["steps:tools"]
    assert [tool["name"] for tool in found["listed"]] == ["add", "describe", "say-nothing", "fail", "hang", "remember"]
    assert found["before_reset"] == {"total": 0, "resets": 0}, "a first step is no reset"
    assert found["called"] == [3, None, {"total": 8, "resets": 1}]
    assert found["session"] == [1, 2, 3], "the MCP session lives as long as that of the client"
    errors = {key: value[0]["error"]["error_type"] for key, value in found.items() if key.endswith("}")}
    assert errors == {
        "nothing {}": "tool_not_found",
        "fail {}": "execution_error",
        "add {'a': 'x'}": "execution_error",
        "add {}": "invalid_args",
        "hang {}": "timeout",
    }
    assert found["hang {} raised"].endswith("timed out after 0.5 seconds (type: timeout)")
    assert found["steps"] == 19


@pytest.mark.parametrize("name", [*OURS, *OTHERS])
def test_a_tool_client_in_production_mode_sees_what_it_sees_on_openenvs_server(seen, name):
    assert seen[f"production:{name}"] == seen["production:theirs"]


def test_tools_over_http_and_steps_over_the_websocket_share_a_session(seen):
    found = seen["production:tools"]
    assert found["called"] == [2, {"total": 7, "resets": 1}]
    assert found["session"] == [1, 2]
    assert found["same_session"][0]["result"]["data"] == 3
    assert found["steps"] == 1, "tools over HTTP are no steps"


@pytest.mark.parametrize("name", ["theirs", *OURS])
def test_clients_at_the_same_time_have_a_session_each(seen, name):
    assert seen[f"together:{name}"] == [number + 1 for number in range(8)]


def comparable(answers):
    """Results, and the codes of errors. What an error says is compared where the environment says it."""
    found = {}
    for name, answer in answers.items():
        answer = answer.get("data", answer) if isinstance(answer, dict) and "jsonrpc" not in answer else answer
        if isinstance(answer, dict) and "error" in answer and answer["error"]["code"] != -32603:
            answer = {**answer, "error": {**answer["error"], "message": ""}}
        found[name] = answer
    return found


@pytest.mark.parametrize("part", ["http", "socket", "inside"])
@pytest.mark.parametrize("name", OURS)
def test_json_rpc_is_answered_as_on_openenvs_server(seen, name, part):
    assert comparable(seen[f"{part}:{name}"]) == comparable(seen[f"{part}:theirs"])


def test_json_rpc_on_a_websocket_has_a_session_of_its_own(seen):
    found = seen["socket:tools"]
    assert found["call"]["id"] == "x"
    assert found["call"]["result"]["data"] == 2
    assert found["object"]["result"]["structured_content"] == {"total": 2, "resets": 0}
    assert found["failing"]["error"]["message"] == "Error calling tool 'fail': no luck"
    assert found["own_session"]["error"]["code"] == -32600
    assert found["again"]["result"]["data"] == {"total": 2, "resets": 0}


@pytest.mark.parametrize("name", OTHERS)
def test_steps_with_data_work_whatever_types_the_server_was_given(seen, name):
    assert seen[f"inside:{name}"]["call_step"] == seen["inside:theirs"]["call_step"]
    assert seen[f"inside:{name}"]["list_step"] == seen["inside:theirs"]["list_step"]


@pytest.mark.parametrize("name", OURS)
def test_a_session_that_is_in_use_is_closed_when_its_websocket_leaves(seen, name):
    found, theirs = seen[f"sessions:{name}"], seen["sessions:theirs"]
    assert found["closing"] == {"session_id": True, "closed": False, "closing": True}
    for answers in (found, theirs):
        answers["own"]["error"]["message"] = ""
    assert found == theirs


@pytest.mark.parametrize("name", ["narrow", "alone"])
def test_tools_without_a_session_leave_the_only_place_to_a_client(seen, name):
    listed, called, first, second, rest = seen[f"room:{name}"]
    assert (listed, called) == (6, 2)
    assert first["result"]["data"] == {"total": 0, "resets": 0}
    assert second["error"]["code"] == -32000
    assert second["error"]["data"] == {"active_sessions": 1, "max_sessions": 1}
    assert rest == []


def test_an_environment_that_answers_the_actions_itself_has_tools_too(seen):
    assert seen["by_hand:by_hand"] == seen["by_hand:theirs_by_hand"]
    assert seen["by_hand:by_hand"]["listed"][0]["name"] == "twice"
    assert seen["by_hand:by_hand"]["called"]["result"]["result"] == 6


# Our client.


@pytest.mark.parametrize("name", ["theirs", *OURS])
def test_our_client_uses_tools_with_openenvs_actions_and_with_data(seen, name):
    found = seen[f"ours:{name}"]
    assert found["class"][1]["result"]["data"] == 2
    assert found["data"][1]["result"]["data"] == {"total": 5, "resets": 1}
    assert [tool["name"] for tool in found["list_data"][1]["tools"]][:2] == ["add", "describe"]
    assert found["list_class"] == found["list_data"]
    assert found["unknown_tool"][1]["error"]["error_type"] == "tool_not_found"
    assert found["refused"].startswith("InvalidActionError: ")
    assert found["after"] == {"total": 5, "resets": 1}, "a refused action changes nothing"


@pytest.mark.parametrize("name", OURS)
def test_our_client_gets_observations_of_the_type_that_they_have(seen, name):
    found = seen[f"ours:{name}"]
    kinds = [found[action][0] for action in ("class", "data", "list_class")]
    assert kinds == ["CallToolObservation", "CallToolObservation", "ListToolsObservation"]


@pytest.mark.parametrize("name", ["own", "untyped", "served", "processes"])
def test_our_client_plays_the_environments_own_actions_beside_its_tools(seen, name):
    first, nudge, data, tool, total, refused = seen[f"own:{name}"]
    assert [first.replace("Nudged", "Observation"), tool] == ["Observation", ["CallToolObservation", None]]
    assert [nudge[1], data[1]] == [1.0, 1.0]
    assert total == {"total": 10, "resets": 1}
    assert refused.startswith("InvalidActionError: action does not fit Nudge")

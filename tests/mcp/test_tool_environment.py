"""Tool environments with tools of MCP servers: in this process, as a model sees them, and on a server."""

import json
import sys
from pathlib import Path

import pytest

import envweave as ew
from envweave.testing.serving import running_server

USEFUL = {"command": sys.executable, "args": [str(Path(__file__).parent / "servers" / "useful.py")]}


class Workshop(ew.ToolEnvironment):
    """Add numbers, then hand them in."""

    penalty = -0.5
    tool_timeout = 20.0

    def __init__(self) -> None:
        super().__init__(servers={"useful": USEFUL})

    def reset(self, *, seed: int | None = None) -> ew.ToolObservation:
        return ew.ToolObservation("What is 2 + 3?")

    @ew.tool
    def hand_in(self, total: int) -> ew.ToolObservation:
        """Hand in the total."""
        return ew.ToolObservation("taken", reward=float(total == 5), done=True)


def call(env, name, **arguments):
    return env.step({"tool_name": name, "arguments": arguments})


@pytest.fixture(scope="module", params=["here", "on a server"])
def env(request):
    if request.param == "here":
        with ew.make(Workshop) as env:
            yield env
    else:
        id = "pkg://test_tool_environment:Workshop"
        with running_server(id, cwd=Path(__file__).parent) as server, ew.make(server.url) as env:
            yield env


def test_tools_of_a_server_and_methods_are_steps_of_one_episode(env):
    env.reset()
    assert call(env, "add", a=2, b=3).obs.result == 5
    assert call(env, "odd_one_out", kind="right").obs.result["kind"] == "right"
    ended = call(env, "hand_in", total=5)
    assert (ended.reward, ended.terminated) == (1.0, True)


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "words", "reward"),
    [
        ("ad", {"a": 2}, "tool_not_found", "did you mean 'add'?", -0.5),
        ("add", {"a": "two"}, "invalid_args", "a", -0.5),
        ("fail", {"why": "no luck"}, "execution_error", "no luck", 0.0),
        ("die", {}, "transport_error", "the server is gone", 0.0),
    ],
)
def test_a_call_that_fails_is_an_observation_and_the_next_one_works(env, name, arguments, kind, words, reward):
    env.reset()
    failed = call(env, name, **arguments)
    assert (failed.obs.error["error_type"], failed.reward, failed.done) == (kind, reward, False)
    assert words in failed.obs.error["message"]
    assert call(env, "add", a=2, b=3).obs.result == 5


def test_a_model_is_offered_all_of_them_and_calls_several_in_a_reply():
    calls = [
        {"id": f"c{number}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate([("add", {"a": 2, "b": 3}), ("hand_in", {"total": 5})])
    ]
    with ew.make(Workshop, chat=True) as env:
        first = env.reset()
        assert {"hand_in", "add", "fail"} <= {tool["function"]["name"] for tool in first.obs.tools}
        ended = env.step({"role": "assistant", "content": None, "tool_calls": calls})
        assert [message["content"] for message in ended.obs.messages] == ["5", "taken"]
        assert (ended.reward, ended.terminated) == (1.0, True)


def test_the_server_ends_with_the_environment():
    with ew.make(Workshop) as env:
        env.reset()
        number = call(env, "process").obs.result
        assert Path(f"/proc/{number}").exists()
    assert not Path(f"/proc/{number}").exists()

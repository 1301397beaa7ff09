"""Environments whose actions are calls of tools."""

import asyncio
import copy
import json
import pickle
import threading

import pytest

import envweave as ew
from envweave.core.jsonable import to_json
from envweave.errors import InvalidActionError
from envweave.tools import CallTool, ToolError


class Desk(ew.ToolEnvironment):
    """A desk with a drawer."""

    penalty = -0.5
    max_result_chars = 1000

    def reset(self, *, seed: int | None = None) -> ew.ToolObservation:
        self.drawer = ["pen"]
        self.gate = threading.Event()
        return ew.ToolObservation("Empty the drawer.")

    @ew.tool
    def put(self, thing: str, count: int = 1) -> list[str]:
        """Put a thing into the drawer."""
        self.drawer += [thing] * count
        return self.drawer

    @ew.tool
    def empty(self) -> ew.ToolObservation:
        """Empty the drawer, which ends the episode."""
        return ew.ToolObservation(result=len(self.drawer), reward=1.0, done=True)

    @ew.tool
    def ask(self, what: str) -> object:
        """Ask for something odd."""
        match what:
            case "refusal":
                raise ToolError("not today")
            case "exit":
                raise SystemExit(3)
            case "object":
                return object()
            case "megabytes":
                return {"text": "x" * 10_000_000}
            case "long text":
                return ew.ToolObservation("x" * 10_000_000)
            case "long failure":
                raise ValueError("x" * 10_000_000)
            case "surrogate":
                return {"file": "\udcff", "number": 1}
            case "cancelled":
                raise asyncio.CancelledError
            case "a look":
                return ew.ToolObservation("a drawer")
            case "not scored":
                return ew.ToolObservation("odd", done=True)
            case "gate":
                self.gate.wait(60)
                return "opened"
        raise KeyError(what)

    def help(self) -> str:  # no tool
        return "none"


class Hasty(Desk):
    tool_timeout = 0.05


class Patient(Desk):
    tool_timeout = 60.0


@pytest.fixture
def env():
    with ew.make(Desk) as env:
        env.reset()
        yield env


def call(env, name, **arguments):
    return env.step(CallTool(name, arguments))


def test_marked_methods_are_tools_in_the_order_in_which_they_are_written(env):
    tools = env.unwrapped.tools
    assert [tool.name for tool in tools] == ["put", "empty", "ask"]
    assert tools["put"].schema()["inputSchema"]["required"] == ["thing"]
    assert env.action_schema()["required"] == ["tool_name"]


def test_a_call_is_a_step_that_may_be_rewarded_and_end_the_episode(env):
    result = call(env, "put", thing="cup", count=2)
    assert (result.obs.tool_name, result.obs.result, result.reward) == ("put", ["pen", "cup", "cup"], 0.0)
    result = call(env, "empty")
    assert (result.obs.result, result.reward, result.terminated) == (3, 1.0, True)


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "words", "reward"),
    [
        ("putt", {"thing": "cup"}, "tool_not_found", "did you mean 'put'?", -0.5),
        ("help", {}, "tool_not_found", "no tool named 'help'", -0.5),
        ("reset", {}, "tool_not_found", "no tool named 'reset'", -0.5),
        ("put", {}, "invalid_args", "thing", -0.5),
        ("put", {"thing": "cup", "count": "many"}, "invalid_args", "count", -0.5),
        ("put", {"thing": "cup", "colour": "red"}, "invalid_args", "colour", -0.5),
        ("ask", {"what": "refusal"}, "execution_error", "not today", 0.0),
        ("ask", {"what": "money"}, "execution_error", "money", 0.0),
        ("ask", {"what": "exit"}, "execution_error", "SystemExit", 0.0),
    ],
)
def test_a_call_that_fails_is_an_observation(env, name, arguments, kind, words, reward):
    result = call(env, name, **arguments)
    assert result.obs.error["error_type"] == kind
    assert words in result.obs.error["message"]
    assert (result.reward, result.done, result.obs.result) == (reward, False, None)
    assert call(env, "put", thing="cup").obs.result == ["pen", "cup"]


def test_an_action_that_is_no_call_is_refused_and_changes_nothing(env):
    for wrong in ({}, {"tool_name": 3}, {"tool_name": "put", "arguments": []}, "put"):
        with pytest.raises(InvalidActionError):
            env.step(wrong)
    assert env.state().step_count == 0


def test_results_are_bounded_json(env):
    assert call(env, "ask", what="object").obs.result.startswith("<object object")
    cut = call(env, "ask", what="megabytes").obs.result
    assert len(cut) < 1100
    assert "characters left out" in cut


@pytest.mark.parametrize("what", ["long text", "long failure", "surrogate"])
def test_what_a_model_is_told_is_bounded_and_can_be_sent(env, what):
    seen = call(env, "ask", what=what).obs
    assert len(json.dumps(to_json(seen)).encode()) < 1300
    json.dumps(to_json(seen), ensure_ascii=False).encode()
    if what == "surrogate":
        assert seen.result == {"file": "?", "number": 1}


def test_an_observation_without_a_reward_earns_nothing_and_is_not_scored_if_it_is_the_last(env):
    assert call(env, "ask", what="a look").reward == 0.0
    assert call(env, "ask", what="not scored").reward is None


def test_a_tool_that_hangs_is_given_up_and_no_other_runs_until_it_has_ended():
    with ew.make(Hasty) as env:
        env.reset()
        gate = env.unwrapped.gate
        hung = call(env, "ask", what="gate")
        assert (hung.obs.error["error_type"], hung.reward, hung.done) == ("timeout", 0.0, False)
        assert "still runs" in call(env, "put", thing="cup").obs.error["message"]
        thread = env.unwrapped._hung
        with pytest.raises(ew.EnvError, match="a tool of Hasty still runs"):
            env.reset()  # it would change the next episode
        gate.set()
        thread.join()
        assert env.reset().obs.text == "Empty the drawer."
        assert call(env, "put", thing="cup").obs.result == ["pen", "cup"]


def test_what_is_no_failure_of_a_tool_is_raised_with_a_timeout_too():
    for kind in (Desk, Patient):
        with ew.make(kind) as env:
            env.reset()
            with pytest.raises(ew.EnvError, match="CancelledError"):
                call(env, "ask", what="cancelled")


def test_a_copy_calls_its_own_tools():
    env = Desk()
    env.reset()
    assert len(env.tools) == 3
    env.gate = None  # a lock cannot be copied
    twin = copy.deepcopy(env)
    twin.step(CallTool("put", {"thing": "cup"}))
    assert (env.drawer, twin.drawer) == (["pen"], ["pen", "cup"])
    twin = pickle.loads(pickle.dumps(twin))
    twin.step(CallTool("put", {"thing": "mug"}))
    assert (env.drawer, twin.drawer) == (["pen"], ["pen", "cup", "mug"])


def test_subclasses_add_and_replace_tools():
    class Bigger(Desk):
        @ew.tool
        def look(self) -> int:
            """How many things there are."""
            return len(self.drawer)

        @ew.tool
        def empty(self) -> str:
            """It does not open."""
            return "stuck"

    with ew.make(Bigger) as env:
        env.reset()
        assert call(env, "look").obs.result == 1
        assert (call(env, "empty").obs.result, env.state().step_count) == ("stuck", 2)

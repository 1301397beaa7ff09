"""Environments with MCP tools, without OpenEnv: its classes are imitated. `tests/integration` has the real ones."""

import asyncio
import sys
from random import Random
from types import ModuleType
from typing import Any, Literal

import pydantic
import pytest

import envweave as ew
from envweave.core.sample import sample
from envweave.core.tool_actions import tool_actions

MODULE = sys.modules["openenv_core.imitation"] = ModuleType("openenv_core.imitation")


def of_openenv(cls):
    cls.__module__ = MODULE.__name__
    setattr(MODULE, cls.__name__, cls)
    return cls


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")


@of_openenv
class Observation(Model):
    done: bool = False
    reward: float | None = None


@of_openenv
class ListToolsAction(Model):
    type: Literal["list_tools"] = "list_tools"


@of_openenv
class CallToolAction(Model):
    type: Literal["call_tool"] = "call_tool"
    tool_name: str
    arguments: dict[str, Any] = {}


@of_openenv
class ListToolsObservation(Observation):
    tools: list[str]


@of_openenv
class CallToolObservation(Observation):
    tool_name: str
    result: Any = None


@of_openenv
class Environment:
    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        return self.reset(seed=seed, episode_id=episode_id, **kwargs)

    async def step_async(self, action, timeout_s=None, **kwargs):
        return self.step(action, timeout_s=timeout_s, **kwargs)

    def close(self):
        pass


@of_openenv
class MCPEnvironment(Environment):
    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        return asyncio.run(self.step_async(action))

    async def step_async(self, action, timeout_s=None, **kwargs):
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=["echo"])
        if isinstance(action, CallToolAction):
            return CallToolObservation(tool_name=action.tool_name, result=action.arguments)
        return self._step_impl(action)


class Push(Model):
    by: int


class Greedy(Model):
    """Looks like a call of a tool, and is none."""

    type: str
    tool_name: str


class Undeclared(MCPEnvironment):
    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation(reward=float(action["by"] if isinstance(action, dict) else action.by))


class Pushed(MCPEnvironment):
    def _step_impl(self, action: Push, timeout_s=None, **kwargs):
        return Observation(reward=float(action.by))


class Grabbed(MCPEnvironment):
    def _step_impl(self, action: Greedy, timeout_s=None, **kwargs):
        return Observation(reward=9.0)


class Overridden(Pushed):
    def step(self, action, timeout_s=None, **kwargs):
        return super().step(action).model_copy(update={"reward": 7.0})


class Plain(Environment):
    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        return Observation()


def stepped(env, *actions):
    with ew.adapt(env) as handle:
        handle.reset()
        return [handle.step(action) for action in actions]


@pytest.mark.parametrize("kind", [Undeclared, Pushed])
def test_actions_about_tools_are_taken_as_objects_and_as_data(kind):
    call = {"type": "call_tool", "tool_name": "echo", "arguments": {"x": 1}}
    results = stepped(kind(), call, CallToolAction(tool_name="echo"), {"tool_name": "echo"}, {"type": "list_tools"})
    assert [type(result.obs) for result in results] == [CallToolObservation] * 3 + [ListToolsObservation]
    assert results[0].obs.result == {"x": 1}


@pytest.mark.parametrize("kind", [Undeclared, Pushed])
def test_other_actions_are_the_environments_own(kind):
    assert [result.reward for result in stepped(kind(), Push(by=2), {"by": 3})] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"type": "call_tool"}, "CallToolAction: tool_name: field required"),
        ({"type": "list_tools", "x": 1}, "ListToolsAction: x: extra inputs are not permitted"),
        ({}, "Push: by: field required"),
        ({"type": 3}, "Push: by: field required"),
        (5, "Push: input should be a valid dictionary"),
    ],
)
def test_an_action_that_does_not_fit_is_refused_by_the_type_that_it_is_about(action, message):
    with pytest.raises(ew.InvalidActionError, match=message):
        stepped(Pushed(), action)


def test_data_that_fit_the_environments_own_type_are_of_that_type():
    grabbed, called = stepped(Grabbed(), {"type": "call_tool", "tool_name": "x"}, CallToolAction(tool_name="x"))
    assert grabbed.reward == 9.0
    assert called.obs.tool_name == "x"


def test_the_schema_of_actions_names_every_form():
    with ew.adapt(Pushed()) as handle:
        titles = [part["title"] for part in handle.action_schema()["anyOf"]]
    assert titles == ["CallToolAction", "ListToolsAction", "Push"]


@pytest.mark.parametrize("kind", [Undeclared, Pushed, Grabbed])
def test_actions_that_are_drawn_from_the_schema_are_accepted(kind):
    random = Random(1)
    with ew.adapt(kind()) as handle:
        schema = handle.action_schema()
    seen = {type(result.obs).__name__ for result in stepped(kind(), *(sample(schema, random) for _ in range(40)))}
    assert seen >= {"CallToolObservation", "ListToolsObservation"}


def test_a_sync_step_that_the_author_overrides_is_not_gone_around():
    assert [result.reward for result in stepped(Overridden(), {"by": 1}, {"type": "list_tools"})] == [7.0, 7.0]


def test_tools_are_recognised_by_a_class_of_openenv_and_not_by_its_name():
    class MCPEnvironment(Plain):
        pass

    assert tool_actions(MCPEnvironment) is None
    assert tool_actions(Plain()) is None
    assert tool_actions(Pushed).call is CallToolAction
    assert tool_actions(Plain, CallToolAction).list is ListToolsAction

"""An action that does not fit is refused by field and expected type, and nothing changes."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import gymnasium as gym
import numpy as np
import pydantic
import pytest

import envweave as ew
from envweave.errors import InvalidActionError


@dataclass
class Inner:
    word: str


@dataclass
class Rich(ew.Action):
    """Do much."""

    count: int
    side: Literal["left", "right"] = "left"
    inner: Inner | None = None
    weights: list[float] = field(default_factory=list)


@dataclass
class Plain(ew.Action):
    count: int
    side: Literal["left", "right"] = "left"


class Model(pydantic.BaseModel):
    count: Annotated[int, pydantic.Field(ge=0, alias="n")]


class Typed(TypedDict):
    count: int


def env_for(type_):
    class Env(ew.Environment[type_, Any]):
        def reset(self):
            self.taken = []
            return 0

        def step(self, action):
            self.taken.append(action)
            return 0

    env = ew.adapt(Env())
    env.reset()
    return env


@pytest.mark.parametrize("type_", [Rich, Plain])
def test_a_dict_becomes_the_declared_dataclass(type_):
    env = env_for(type_)
    env.step({"count": 3, "side": "right"})
    assert env.unwrapped.taken == [type_(3, "right")]


def test_nested_data_becomes_nested_dataclasses():
    env = env_for(Rich)
    env.step({"count": 1, "inner": {"word": "x"}, "weights": [1, 2.5]})
    assert env.unwrapped.taken == [Rich(1, inner=Inner("x"), weights=[1.0, 2.5])]


@pytest.mark.parametrize("type_", [Rich, Plain])
@pytest.mark.parametrize(
    ("action", "named"),
    [
        ({"count": "three"}, "count: .*integer"),
        ({}, "count: "),
        ({"count": 1, "side": "up"}, "side: .*'left' or 'right'"),
        ({"count": 1, "cuont": 2}, "cuont"),
        ("jump", "Plain|Rich"),
        (None, "Plain|Rich"),
        ([1], "Plain|Rich"),
    ],
)
def test_a_wrong_action_is_refused_by_field_and_nothing_changes(type_, action, named):
    env = env_for(type_)
    with pytest.raises(InvalidActionError, match=named) as caught:
        env.step(action)
    assert "count: int" in caught.value.hint
    assert env.unwrapped.taken == []
    assert env.state().step_count == 0
    env.step(type_(1))


@pytest.mark.parametrize("type_", [Rich, Plain])
def test_an_instance_with_a_wrong_field_is_refused_too(type_):
    env = env_for(type_)
    with pytest.raises(InvalidActionError, match="count"):
        env.step(type_("three"))
    with pytest.raises(InvalidActionError, match="side"):
        env.step(type_(1, side="up"))
    assert env.unwrapped.taken == []


@pytest.mark.parametrize("type_", [Rich, Plain])
def test_an_instance_of_a_subclass_stays_what_it_is(type_):
    @dataclass
    class Special(type_):
        note: str = ""

    env = env_for(type_)
    action = Special(1, note="n")
    env.step(action)
    assert env.unwrapped.taken == [action]
    assert env.unwrapped.taken[0] is action


def test_a_pydantic_model_is_checked_as_data_and_as_an_instance():
    env = env_for(Model)
    env.step({"n": 1})
    env.step(Model(n=2))
    with pytest.raises(InvalidActionError, match="greater than or equal to 0"):
        env.step({"n": -1})
    with pytest.raises(InvalidActionError, match="integer"):
        env.step(Model.model_construct(count="three"))
    assert [action.count for action in env.unwrapped.taken] == [1, 2]


def test_a_typed_dict_and_a_plain_type_are_checked():
    env = env_for(Typed)
    env.step({"count": 1})
    with pytest.raises(InvalidActionError, match="count"):
        env.step({"count": "x"})
    env = env_for(str)
    env.step("hello")
    with pytest.raises(InvalidActionError, match="string"):
        env.step(5)


def test_the_schema_carries_the_docstring_and_not_the_metadata():
    schema = env_for(Rich).action_schema()
    assert schema["description"] == "Do much."
    assert "metadata" not in schema["properties"]
    assert schema["required"] == ["count"]


def test_an_environment_that_does_not_say_what_it_takes_takes_anything():
    class Env:
        def reset(self):
            return 0

        def step(self, action):
            return action

    env = ew.adapt(Env())
    assert env.reset().requests[0].action_schema is None
    assert env.step(object).obs is object


def space_env(space):
    class Env(gym.Env):
        action_space = space
        observation_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.taken = []
            return 0, {}

        def step(self, action):
            self.taken.append(action)
            return 0, 0.0, False, False, {}

    env = ew.adapt(Env())
    env.reset()
    return env


def test_a_discrete_space_takes_what_it_contains():
    env = space_env(gym.spaces.Discrete(3, start=1))
    env.step(1)
    env.step(np.int64(3))
    for wrong in (0, 4, "1", 1.5, None, True, np.float64(1.0), np.array([1, 2])):
        with pytest.raises(InvalidActionError, match="not one of 1 to 3"):
            env.step(wrong)
    assert env.action_schema() == {"type": "integer", "minimum": 1, "maximum": 3}
    assert len(env.unwrapped.taken) == 2


def test_a_box_takes_a_list_as_json_would_give_it():
    env = space_env(gym.spaces.Box(-1.0, 1.0, (2,), np.float32))
    env.step([0.5, -0.5])
    assert env.unwrapped.taken[0].dtype == np.float32
    env.step([0.5, 3.0])  # Gymnasium's environments clip it
    with pytest.raises(InvalidActionError):
        env.step([0.5, float("nan")])
    number = {"type": "number", "minimum": -1.0, "maximum": 1.0}
    assert env.action_schema() == {"type": "array", "items": number, "minItems": 2, "maxItems": 2}


def test_a_hint_of_any_takes_anything_also_by_agent():
    class Env:
        agents = ["a"]  # noqa: RUF012

        def reset(self):
            return {"a": 0}

        def step(self, actions: dict[str, Any]):
            return {"a": actions["a"]}, {"a": 0.0}, {"a": False}, {"a": False}, {}

    env = ew.adapt(Env())
    env.reset()
    assert env.step({"a": "whatever"}).obs == {"a": "whatever"}


def test_a_type_that_refers_to_nothing_is_the_authors_error_with_its_name():
    @dataclass
    class Lost(ew.Action):
        where: "Nowhere"  # noqa: F821

    class Env(ew.Environment[Lost, Any]):
        def reset(self):
            return 0

        def step(self, action):
            return 0

    with pytest.raises(ew.errors.BadResultError, match="Lost cannot be validated"):
        ew.adapt(Env())


def test_validation_gives_an_instance_of_the_type():
    from envweave.core.schema import validate

    assert validate(Plain, {"count": 1}) == Plain(1)
    assert validate(Any, 1) == 1

"""Every convention's return values mean what their owners mean by them."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypedDict

import numpy as np
import pydantic
import pytest

import envweave as ew
from envweave.errors import BadResultError


@dataclass
class Seen(ew.Observation):
    value: int = 0


class SeenModel(pydantic.BaseModel):
    value: int = 0
    done: bool = False
    reward: float | None = None
    metadata: dict = {}


class SeenDict(TypedDict, total=False):
    value: int
    done: bool
    reward: float


class Returns:
    """Returns what it is told to."""

    def __init__(self, step, reset=0):
        self.step_value, self.reset_value = step, reset

    def reset(self):
        return self.reset_value

    def step(self, action):
        return self.step_value


def step(value):
    env = ew.adapt(Returns(value))
    env.reset()
    return env.step(0)


@pytest.mark.parametrize(
    ("value", "reward", "terminated", "truncated"),
    [
        pytest.param(("o", 1.5, True, False, {}), 1.5, True, False, id="gymnasium, terminated"),
        pytest.param(("o", 1, False, True, {}), 1.0, False, True, id="gymnasium, truncated"),
        pytest.param(("o", 1.0, False, False, None), 1.0, False, False, id="gymnasium, no info"),
        pytest.param(("o", np.float32(0.5), np.bool_(True), np.bool_(False), {}), 0.5, True, False, id="numpy scalars"),
        pytest.param(("o", np.float64(0.5), False, False, {}), 0.5, False, False, id="numpy float64"),
        pytest.param(("o", np.int64(2), 0, 1, {}), 2.0, False, True, id="numpy int, flags as numbers"),
        pytest.param(("o", np.array(0.25), False, False, {}), 0.25, False, False, id="array of no dimension"),
        pytest.param(("o", np.array([0.25]), np.array([True]), False, {}), 0.25, True, False, id="array of one"),
        pytest.param(("o", Fraction(1, 4), False, False, {}), 0.25, False, False, id="fraction"),
        pytest.param(("o", True, False, False, {}), 1.0, False, False, id="bool as reward"),
        pytest.param(("o", None, False, False, {}), None, False, False, id="not scored"),
        pytest.param(("o", 1.0, True, {}), 1.0, True, False, id="old gym, done"),
        pytest.param(("o", 1.0, True, {"TimeLimit.truncated": True}), 1.0, False, True, id="old gym, time limit"),
        pytest.param(("o", 1.0, False, {"TimeLimit.truncated": False}), 1.0, False, False, id="old gym, going on"),
        pytest.param(Seen(value=1, reward=2.0, done=True), 2.0, True, False, id="Observation, done"),
        pytest.param(Seen(reward=2), 2.0, False, False, id="Observation, going on"),
        pytest.param(
            Seen(done=True, reward=1.0, metadata={"truncated": True}), 1.0, False, True, id="Observation, truncated"
        ),
        pytest.param(SeenModel(reward=2.0, done=True), 2.0, True, False, id="pydantic model"),
        pytest.param(SeenDict(value=1, reward=2.0, done=True), 2.0, True, False, id="typed dict"),
        pytest.param({"value": 1}, None, False, False, id="plain dict"),
        pytest.param("text", None, False, False, id="plain text"),
        pytest.param(["a", "b"], None, False, False, id="plain list"),
        pytest.param(ew.StepResult("o", 1, True, False, {}), 1.0, True, False, id="StepResult"),
    ],
)
def test_a_step_means_what_its_owner_means(value, reward, terminated, truncated):
    result = step(value)
    assert (result.reward, result.terminated, result.truncated) == (reward, terminated, truncated)
    assert type(result.terminated) is bool
    assert result.reward is None or type(result.reward) is float


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (("o", float("nan"), False, False, {}), "reward is nan"),
        (("o", float("inf"), False, False, {}), "reward is inf"),
        (("o", np.float32("nan"), False, False, {}), "reward is nan"),
        (("o", 10**400, False, False, {}), "not a finite number"),
        (Seen(done="no"), "done is 'no'"),
        ({"done": "no"}, "done is 'no'"),
        (("o", "1.0", False, False, {}), "reward '1.0' is not a number"),
        (("o", [1.0], False, False, {}), "not a number"),
        (("o", np.array([1.0, 2.0]), False, False, {}), "not one number"),
        (("o", 1.0, "no", False, {}), "terminated is 'no'"),
        (("o", 1.0, False, None, {}), "truncated is None"),
        (("o", 1.0, 2, False, {}), "terminated is 2"),
        (("o", 1.0, False, False, "info"), "info is a str"),
        (("o", 1.0, False), "a tuple of 3 values"),
        (None, "step returned None"),
    ],
)
def test_a_step_without_a_meaning_is_the_authors_error_and_ends_the_episode(value, message):
    env = ew.adapt(Returns(value))
    env.reset()
    with pytest.raises(BadResultError, match=message) as caught:
        env.step(0)
    assert [request.reason for request in caught.value.requests] == ["infra_error"]
    with pytest.raises(ew.errors.ResetNeededError):
        env.step(0)


@pytest.mark.parametrize(
    ("value", "observation", "info"),
    [
        (("o", {"i": 1}), "o", {"i": 1}),
        (("o", "p"), ("o", "p"), {}),
        ("o", "o", {}),
        (ew.ResetResult("o", {"i": 1}), "o", {"i": 1}),
        (Seen(value=1, metadata={"i": 1}), Seen(value=1, metadata={"i": 1}), {"i": 1}),
        ({"a": 1}, {"a": 1}, {}),
    ],
)
def test_a_reset_means_what_its_owner_means(value, observation, info):
    assert tuple(ew.adapt(Returns(0, value)).reset()) == (observation, info)


def test_a_reset_that_forgets_its_return_is_the_authors_error():
    with pytest.raises(BadResultError, match="reset returned None"):
        ew.adapt(Returns(0, None)).reset()


def test_five_dicts_by_agent_from_an_environment_without_agents_are_not_taken_for_an_end():
    flags = {"a": False, "b": False}
    with pytest.raises(BadResultError, match="by agent"):
        step(({"a": 1, "b": 2}, {"a": 0.0, "b": 0.0}, flags, flags, {}))

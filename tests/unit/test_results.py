"""Results unpack as in Gymnasium."""

import pytest

import envweave as ew
from envweave.results import ResetResult, StepResult


def test_results_unpack_as_in_gymnasium():
    obs, info = ResetResult("o", {"i": 1})
    assert (obs, info) == ("o", {"i": 1})
    obs, reward, terminated, truncated, info = StepResult("o", 1.0, True, False, {"i": 1})
    assert (obs, reward, terminated, truncated, info) == ("o", 1.0, True, False, {"i": 1})


def test_obs_and_observation_are_the_same():
    assert StepResult("o").obs == StepResult("o").observation == ResetResult("o").obs == "o"


def test_a_reset_has_no_reward_and_is_not_done():
    assert ResetResult("o").reward is None
    assert ResetResult("o").done is False


@pytest.mark.parametrize(
    ("terminated", "truncated", "done"),
    [
        (False, False, False),
        (True, False, True),
        (False, True, True),
        ({"a": True, "b": False}, {"a": False, "b": False}, False),
        ({"a": True, "b": False}, {"a": False, "b": True}, True),
        ({"a": False, "__all__": True}, {}, True),
        ({"a": True, "b": True, "__all__": False}, {"__all__": False}, False),
        ({}, {}, False),
        ({"a": False}, True, True),
    ],
)
def test_done_is_about_the_whole_episode(terminated, truncated, done):
    assert StepResult("o", 0.0, terminated, truncated).done is done


def test_a_result_in_print_holds_the_observation_and_no_schema():
    with ew.make("lineworld") as env:
        first = env.reset(seed=0)
        printed = repr(first)
        assert repr(first.observation) in printed
        assert "NeedAction(agent_id='agent', deadline=None)" in printed
        assert "properties" not in printed
        assert "properties" not in repr(env.step({"move": 1}))

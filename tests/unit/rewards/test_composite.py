"""Several transforms: each with its own contribution, none in the way of another."""

from dataclasses import dataclass

import pytest

import envweave as ew
from envweave.rewards import CompositeTransform, RewardTransform, Rubric, Transform


@dataclass
class Seen(ew.Observation):
    text: str = ""


class Gives(RewardTransform):
    def __init__(self, value, name="gives"):
        self.value, self.name = value, name

    def score(self, observation):
        return self.value


class Doubled(Transform):
    """Sets the reward itself, in the observation that it was given, as OpenEnv's transforms do."""

    def __call__(self, observation):
        observation.reward = (observation.reward or 0.0) * 2
        observation.metadata["doubled"] = True
        return observation


def add_a_tenth(observation):
    observation.reward = (observation.reward or 0.0) + 0.1
    return observation


def fail(observation):
    observation.metadata["trace"] = True
    raise RuntimeError("no")


def apply(transforms, **fields):
    given = Seen(**fields)
    kept = Seen(**fields)
    seen = CompositeTransform(transforms)(given)
    assert given == kept
    return seen.reward, seen.metadata


def test_the_reward_is_the_sum_and_each_part_keeps_its_name():
    reward, metadata = apply([Gives(1.0, "a"), Gives(0.25, "b")], reward=2.0)
    assert (reward, metadata) == (3.25, {"rewards": {"env": 2.0, "a": 1.0, "b": 0.25}})


def test_no_members_change_nothing_but_the_account():
    assert apply([], reward=1.0) == (1.0, {"rewards": {"env": 1.0}})
    assert apply([]) == (None, {})


def test_a_plain_transform_contributes_what_it_changed_of_the_reward():
    reward, metadata = apply([Gives(1.0), Doubled(), add_a_tenth])
    assert reward == pytest.approx(2.1)
    assert metadata == {"rewards": {"gives": 1.0, "doubled": 1.0, "add_a_tenth": 0.1}, "doubled": True}


def test_one_that_leaves_the_reward_alone_has_no_part_in_it():
    assert apply([Gives(1.0), lambda observation: observation]) == (1.0, {"rewards": {"gives": 1.0}})


def test_one_that_raises_leaves_no_trace_but_its_reason_and_the_others_still_run():
    reward, metadata = apply([Gives(1.0, "a"), fail, add_a_tenth, Gives(0.5, "b")], reward=2.0)
    assert reward is None
    assert metadata["rewards"] == {"env": 2.0, "a": 1.0, "fail": None, "add_a_tenth": 0.1, "b": 0.5}
    assert metadata["error"]["message"] == "reward 'fail' raised RuntimeError: no"
    assert "trace" not in metadata


def test_every_failure_has_its_reason_and_the_first_is_the_error_of_the_step():
    _, metadata = apply([Gives(float("nan"), "a"), fail, Gives("x", "b")])
    assert list(metadata["reward_errors"]) == ["a", "fail", "b"]
    assert metadata["error"] == metadata["reward_errors"]["a"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "much", [1]])
def test_a_plain_transform_that_sets_no_number_has_failed(value):
    def spoil(observation):
        observation.reward = value
        return observation

    reward, metadata = apply([Gives(1.0), spoil])
    assert (reward, metadata["rewards"]) == (None, {"gives": 1.0, "spoil": None})
    assert "reward 'spoil'" in metadata["error"]["message"]


def test_a_plain_transform_that_takes_the_reward_away_leaves_the_step_unscored():
    def unscore(observation):
        observation.reward = None
        return observation

    assert apply([Gives(1.0), unscore]) == (None, {"rewards": {"gives": 1.0, "unscore": None}})


def test_a_forgotten_return_is_a_failure():
    reward, metadata = apply([Gives(1.0), lambda observation: None])
    assert reward is None
    assert "returned None" in metadata["reward_errors"]["lambda"]["message"]


def test_a_plain_transform_that_makes_a_new_observation_cannot_wash_a_failure_away():
    def fresh(observation):
        return Seen(reward=0.0)

    reward, metadata = apply([fail, fresh])
    assert (reward, metadata["rewards"]["fail"]) == (None, None)
    assert "RuntimeError" in metadata["error"]["message"]
    assert apply([Gives(1.0), lambda _: Seen(reward=5.0)]) == (5.0, {"rewards": {"gives": 1.0, "lambda": 4.0}})


def test_a_member_may_call_transforms_by_itself():
    assert apply([lambda observation: Gives(1.0)(observation)]) == (1.0, {"rewards": {"gives": 1.0}})


def test_a_scoring_transform_that_does_more_when_it_is_called_does_so_here_too():
    class Noting(Gives):
        def __call__(self, observation):
            observation.metadata["noted"] = True
            return super().__call__(observation)

    assert apply([Noting(1.0)]) == (1.0, {"noted": True, "rewards": {"gives": 1.0}})


def test_composites_and_rubrics_in_a_list_keep_the_names_of_their_parts():
    inner = CompositeTransform([Gives(1.0, "a")]), CompositeTransform([Gives(2.0, "b")]), Rubric(c=lambda _: 4.0)
    assert apply(inner) == (7.0, {"rewards": {"a": 1.0, "b": 2.0, "c": 4.0}})


def test_names_can_be_given():
    members = {"first": Gives(1.0), "second": Gives(2.0), "third": add_a_tenth, "style": Rubric(short=lambda _: 1)}
    reward, metadata = apply(members)
    assert reward == pytest.approx(4.1)
    assert metadata["rewards"] == {"first": 1.0, "second": 2.0, "third": 0.1, "style.short": 1.0}


def test_it_is_given_any_iterable_and_shows_its_members():
    members = [Gives(1.0, "a"), add_a_tenth]
    assert CompositeTransform(iter(members)).transforms == tuple(members)


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        ([Gives(1), Gives(2)], "the name 'gives' is taken"),
        ([lambda o: o, lambda o: o], "the name 'lambda' is taken"),
        ([Gives(1, "env")], "the name 'env' is taken"),
        ([Gives(1, "a.b")], "'a.b' cannot name a contribution"),
        ({"": Gives(1)}, "'' cannot name"),
        ({"a": CompositeTransform([])}, "is a CompositeTransform"),
        ([5], "transform 'int' is 5"),
        ([Gives], "transform '.*' is <class"),
        (Gives(1), "is not a list of transforms"),
        ("abc", "transform 'str' is 'a'"),
    ],
)
def test_what_has_no_meaning_is_refused_when_it_is_made(transforms, message):
    with pytest.raises(ew.UsageError, match=message) as caught:
        CompositeTransform(transforms)
    assert caught.value.hint


def test_an_observation_that_is_a_dict_goes_through_plain_members_too():
    def add(observation):
        return {**observation, "reward": (observation.get("reward") or 0) + 1}

    assert CompositeTransform([Gives(1.0), add])({"x": 1}) == {
        "x": 1, "reward": 2.0, "metadata": {"rewards": {"gives": 1.0, "add": 1.0}},
    }  # fmt: skip

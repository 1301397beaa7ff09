"""Named, weighted components over a step or a trajectory, in one form."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import envweave as ew
from envweave.core.jsonable import to_json
from envweave.rewards import CompositeTransform, MathProblemTransform, Rubric, Transform


@dataclass
class Seen(ew.Observation):
    text: str = ""


def solved(observation):
    return observation.text == "42"


def length(observation):
    return len(observation.text)


def boom(_):
    raise ValueError("no")


RUBRIC = Rubric(correct=(1.0, solved), style=(0.5, Rubric(short=(2.0, length), polite=lambda _: 0.5)))


def test_over_a_step_it_is_a_transform_and_the_parts_add_up():
    given = Seen(text="42")
    seen = RUBRIC(given)
    assert seen.reward == 3.25
    assert seen.metadata == {"rewards": {"correct": 1.0, "style.short": 2.0, "style.polite": 0.25}}
    assert given == Seen(text="42")


def test_a_score_shows_each_part_weighted_and_raw():
    scores = RUBRIC.score(Seen(text="42"))
    assert scores.total == 3.25
    assert scores.parts == {"correct": 1.0, "style.short": 2.0, "style.polite": 0.25}
    assert scores.raw == {"correct": 1.0, "style.short": 2.0, "style.polite": 0.5}
    assert scores.errors == {}
    assert json.loads(json.dumps(to_json(scores)))["total"] == 3.25


def test_over_a_trajectory_functions_get_all_of_it():
    steps = [ew.StepResult(Seen(text=text), reward) for text, reward in (("a", 0.5), ("42", 1.0))]
    rubric = Rubric(
        earned=lambda steps: sum(step.reward for step in steps),
        quick=(0.1, lambda steps: len(steps) < 3),
        solved=lambda steps: solved(steps[-1].obs),
    )
    assert rubric.score(steps).parts == {"earned": 1.5, "quick": 0.1, "solved": 1.0}
    assert rubric.score(tuple(steps)).total == pytest.approx(2.6)


def test_a_transform_as_component_scores_a_step_or_the_last_of_a_trajectory(ran):
    rubric = Rubric(right=(2.0, MathProblemTransform(42)))
    for subject in (
        ran(42),
        ew.StepResult(ran(42)),
        [ran(41), ran(42)],
        [ew.ResetResult(None), ew.StepResult(ran(42))],
    ):
        scores = rubric.score(subject)
        assert (scores.parts, scores.raw) == ({"right": 2.0}, {"right": 1.0})
        assert scores.notes["answer"]["verdict"] == "right"
    assert rubric(ran(42)).metadata["answer"]["verdict"] == "right"
    assert "empty" in rubric.score([]).errors["right"]["message"]


def test_one_that_raises_is_none_with_the_reason_and_so_is_the_total_whatever_its_weight():
    rubric = Rubric(a=lambda _: 1.0, b=(0.0, Rubric(c=boom, d=lambda _: 1.0)))
    scores = rubric.score(Seen())
    assert (scores.total, scores.parts) == (None, {"a": 1.0, "b.c": None, "b.d": 0.0})
    assert scores.errors["b.c"]["message"] == "reward 'b.c' raised ValueError: no"
    seen = rubric(Seen())
    assert (seen.reward, seen.metadata["rewards"]["b.c"]) == (None, None)
    assert seen.metadata["reward_errors"] == scores.errors
    assert seen.metadata["error"] == scores.errors["b.c"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", [1], object(), {}])
def test_what_is_no_finite_number_has_failed(value):
    scores = Rubric(a=lambda _: value).score(Seen())
    assert (scores.total, scores.parts) == (None, {"a": None})
    assert scores.errors["a"]["code"] == "env.bad_result"


def test_none_is_not_scored_without_an_error():
    scores = Rubric(a=lambda _: None, b=lambda _: 1).score(Seen())
    assert (scores.total, scores.parts, scores.errors) == (None, {"a": None, "b": 1.0}, {})


def test_a_product_that_is_too_large_has_failed():
    assert "too large" in Rubric(a=(1e308, lambda _: 100)).score(Seen()).errors["a"]["message"]
    assert "too large" in Rubric(a=(1e308, Rubric(b=(1e308, lambda _: 1)))).score(Seen()).errors["a.b"]["message"]


def test_bools_numpy_numbers_and_numbers_by_name_are_scores():
    rubric = Rubric(a=lambda _: True, b=lambda _: np.float32(0.5), c=(2, lambda _: {"x": 1, "y": 2}))
    assert rubric.score(Seen()).parts == {"a": 1.0, "b": 0.5, "c.x": 2.0, "c.y": 4.0}


def test_names_that_are_no_identifiers_come_as_a_dict():
    scores = Rubric({"is it short?": (1.0, length), "class": (1, solved)}, more=length).score(Seen(text="42"))
    assert scores.parts == {"is it short?": 2.0, "class": 1.0, "more": 2.0}


async def later(_):
    return 1.0


class Later:
    async def __call__(self, _):
        return 1.0


class Silent(Transform):
    def __call__(self, observation):
        return observation


@pytest.mark.parametrize(
    ("component", "message"),
    [
        (5, "component 'a' is 5"),
        ((1.0, 5), "component 'a' is 5"),
        ((solved, 1.0), "the weight of 'a' is <function"),
        ((float("nan"), solved), "the weight of 'a' is nan"),
        ((float("inf"), solved), "the weight of 'a' is inf"),
        ((True, solved), "the weight of 'a' is True"),
        (("1", solved), "the weight of 'a' is '1'"),
        ((1.0, solved, 2), "component 'a' is"),
        (Seen, "component 'a' is <class"),
        (later, "coroutine function"),
        (Later(), "coroutine function"),
        (Silent(), "a transform that does not score"),
        (CompositeTransform([]), "a transform that does not score"),
    ],
)
def test_a_component_without_a_meaning_is_refused(component, message):
    with pytest.raises(ew.UsageError, match=message) as caught:
        Rubric(a=component)
    assert caught.value.hint


@pytest.mark.parametrize("components", [None, {}, [solved], {"a.b": solved}, {"": solved}, {5: solved}])
def test_a_rubric_without_components_or_with_bad_names_is_refused(components):
    with pytest.raises(ew.UsageError) as caught:
        Rubric(components)
    assert caught.value.hint


def test_two_components_of_one_name_are_refused():
    with pytest.raises(ew.UsageError, match="two components are named 'a'"):
        Rubric({"a": solved}, a=solved)


def test_it_works_through_a_handle():
    class Env(ew.Environment[str, Seen]):
        transform = RUBRIC

        def reset(self, *, seed=None):
            return Seen()

        def step(self, action):
            return Seen(text=action, reward=1.0)

    env = ew.adapt(Env())
    env.reset()
    result = env.step("42")
    assert (result.reward, result.info["rewards"]["env"]) == (4.25, 1.0)
    assert RUBRIC.score([env.step("4")]).errors["correct"]["type"] == "EnvError"  # a trajectory has no text

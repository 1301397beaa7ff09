"""A transform returns a new observation, in which each contribution has its name and the reward is their sum."""

import copy
import pickle
from dataclasses import dataclass, field

import numpy as np
import pydantic
import pytest

import envweave as ew
from envweave.core.jsonable import to_json
from envweave.rewards import (
    CodeQualityTransform,
    CodeSafetyTransform,
    MathProblemTransform,
    RewardTransform,
    Score,
    Transform,
    create_math_env_transform,
)
from envweave.testing import check_env


class Half(RewardTransform):
    def score(self, observation):
        return 0.5


class Returns(RewardTransform):
    def __init__(self, value):
        self.value = value

    def score(self, observation):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@dataclass
class Seen(ew.Observation):
    text: str = ""


@dataclass(frozen=True, slots=True)
class Frozen:
    text: str
    reward: float | None = None
    metadata: dict = field(default_factory=dict)


@dataclass
class Counted(ew.Observation):
    made: list = field(default_factory=list)
    length: int = field(init=False)

    def __post_init__(self):
        self.made.append("once")
        self.length = 7


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", validate_assignment=True)
    text: str
    done: bool = False
    reward: float | None = None
    metadata: dict = {}


class Plain:
    def __init__(self, text):
        self.text, self.done, self.reward, self.metadata = text, False, None, {}


def test_the_contribution_stands_under_its_name_and_in_the_reward():
    seen = Half()(Seen(text="a"))
    assert seen == Seen(text="a", reward=0.5, metadata={"rewards": {"half": 0.5}})


def test_a_name_is_that_of_the_class_or_what_its_author_says():
    class CodeSafetyTransform(Half):
        pass

    class HTTPPageScore(Half):
        pass

    class Other(Half):
        name = "mine"

    assert [cls.name for cls in (Half, CodeSafetyTransform, HTTPPageScore, Other)] == [
        "half", "code_safety", "http_page_score", "mine",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Seen(text="a", metadata={"k": [1]}), id="dataclass"),
        pytest.param(lambda: Frozen("a", metadata={"k": [1]}), id="frozen dataclass with slots"),
        pytest.param(lambda: Model(text="a", metadata={"k": [1]}), id="pydantic model"),
        pytest.param(lambda: {"text": "a", "metadata": {"k": [1]}}, id="dict"),
    ],
)
def test_every_kind_of_observation_is_copied_and_never_changed(make):
    given = make()
    seen = Half()(given)
    assert type(seen) is type(given)
    assert given == make()
    read = (lambda name: seen[name]) if isinstance(seen, dict) else lambda name: getattr(seen, name)
    assert (read("text"), read("reward")) == ("a", 0.5)
    assert read("metadata") == {"k": [1], "rewards": {"half": 0.5}}


def test_a_dict_without_metadata_and_a_plain_object_are_scored_too():
    assert Half()({}) == {"reward": 0.5, "metadata": {"rewards": {"half": 0.5}}}
    given = Plain("a")
    seen = Half()(given)
    assert (seen.text, seen.reward, seen.metadata) == ("a", 0.5, {"rewards": {"half": 0.5}})
    assert (given.reward, given.metadata) == (None, {})


def test_a_copy_is_made_without_running_the_authors_constructor_again():
    seen = Half()(Counted())
    assert (seen.made, seen.length) == (["once"], 7)


@pytest.mark.parametrize("observation", ["text", 5, None, [1], np.zeros(2), pydantic.RootModel[int](1)])
def test_an_observation_that_cannot_carry_a_reward_is_refused(observation):
    with pytest.raises(ew.errors.BadResultError, match="cannot be scored") as caught:
        Half()(observation)
    assert "envweave.Observation" in caught.value.hint


def test_the_environments_own_reward_is_a_contribution_named_env():
    assert Half()(Seen(reward=1.0)).metadata["rewards"] == {"env": 1.0, "half": 0.5}
    assert Half()(Seen(reward=1.0)).reward == 1.5
    assert Half()(Seen(reward=1e-15)).metadata["rewards"]["env"] == 1e-15
    assert Half()(Seen(reward=0.0)).metadata["rewards"] == {"env": 0.0, "half": 0.5}


def test_transforms_can_be_called_one_after_the_other():
    seen = Returns(0.25)(Half()(Seen(reward=1.0)))
    assert (seen.reward, seen.metadata["rewards"]) == (1.75, {"env": 1.0, "half": 0.5, "returns": 0.25})


def test_what_somebody_adds_by_hand_in_between_is_not_lost():
    first = Half()(Seen(reward=1.0))
    first.reward += 0.1
    seen = Returns(1)(first)
    assert seen.metadata["rewards"] == {"half": 0.5, "env": 1.1, "returns": 1.0}
    assert seen.reward == pytest.approx(2.6)


def test_two_contributions_of_one_name_are_not_added_up_in_silence():
    seen = Half()(Half()(Seen()))
    assert (seen.reward, seen.metadata["rewards"]) == (None, {"half": None})
    assert "two contributions are named 'half'" in seen.metadata["error"]["message"]


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (True, 1.0), (False, 0.0), (-0.5, -0.5), (np.float32(0.5), 0.5), (np.int64(2), 2.0)],
)
def test_any_number_is_a_score(value, number):
    seen = Returns(value)(Seen())
    assert seen.reward == number
    assert type(seen.reward) is float
    assert type(seen.metadata["rewards"]["returns"]) is float


def test_none_means_not_scored_and_so_is_the_whole_step():
    seen = Returns(None)(Seen(reward=1.0))
    assert (seen.reward, seen.metadata) == (None, {"rewards": {"env": 1.0, "returns": None}})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (ZeroDivisionError("by zero"), "reward 'returns' raised ZeroDivisionError: by zero"),
        (RecursionError("deep"), "RecursionError"),
        (float("nan"), "reward is nan"),
        (float("-inf"), "reward is -inf"),
        (10**400, "not a finite number"),
        ("1.0", "not a number"),
        ([1.0], "not a number"),
        ({}, "returned no scores"),
        ({"a": float("nan")}, "reward is nan"),
    ],
)
def test_a_failure_is_none_with_the_reason_and_never_zero(value, message):
    seen = Returns(value)(Seen(reward=1.0))
    assert (seen.reward, seen.metadata["rewards"]) == (None, {"env": 1.0, "returns": None})
    assert message in seen.metadata["error"]["message"]
    assert seen.metadata["reward_errors"] == {"returns": seen.metadata["error"]}
    assert {"code", "type", "message"} <= seen.metadata["error"].keys()
    assert to_json(seen.metadata)


def test_a_score_that_is_a_coroutine_is_refused_and_closed():
    async def later():
        return 1.0

    assert "coroutine" in Returns(later())(Seen()).metadata["error"]["message"]


def test_an_environments_reward_that_is_no_number_is_its_own_failure():
    seen = Half()(Seen(reward=float("nan")))
    assert (seen.reward, seen.metadata["rewards"]) == (None, {"env": None, "half": 0.5})
    assert "reward 'env': reward is nan" in seen.metadata["error"]["message"]


def test_metadata_that_uses_the_key_for_something_else_is_refused():
    with pytest.raises(ew.errors.BadResultError, match=r"metadata\['rewards'\] is a list"):
        Half()(Seen(metadata={"rewards": [1, 2]}))


def test_scores_by_name_have_dotted_names_and_notes_go_to_the_metadata():
    seen = Returns(Score({"a": 1, "b": {"c": 2}}, {"seen": "x"}))(Seen())
    assert seen.reward == 3.0
    assert seen.metadata == {"rewards": {"returns.a": 1.0, "returns.b.c": 2.0}, "seen": "x"}


def test_a_sum_that_is_too_large_is_a_failure():
    seen = Returns(1.7e308)(Seen(reward=1.7e308))
    assert seen.reward is None
    assert "too large" in seen.metadata["error"]["message"]


def test_a_transform_that_does_not_say_what_it_does_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Transform()


class Env(ew.Environment[str, Seen]):
    def reset(self, *, seed=None):
        return Seen()

    def step(self, action):
        return Seen(text=action, reward=1.0, done=action == "end", metadata={"k": 1})


def test_through_a_handle_the_reward_and_the_parts_are_seen_and_the_transform_can_change_at_any_time():
    env = Env()
    handle = ew.adapt(env)
    handle.reset()
    assert handle.step("a").reward == 1.0
    env.transform = Half()
    result = handle.step("b")
    assert (result.reward, result.info) == (1.5, {"k": 1, "rewards": {"env": 1.0, "half": 0.5}})
    env.transform = Returns(ValueError("no"))
    result = handle.step("c")
    assert (result.reward, result.info["error"]["message"]) == (None, "reward 'returns' raised ValueError: no")
    env.transform = None
    assert handle.step("end").done


def test_a_vector_names_the_rows_whose_reward_failed():
    class Failing(Env):
        transform = Returns(ValueError("no"))

    ew.register("rewards-failing", Failing, overwrite=True)
    try:
        with ew.make_vector("rewards-failing", 2) as vector:
            vector.reset()
            batch = vector.step(["a", "b"])
            assert batch.reward == [None, None]
            assert {row: error["type"] for row, error in batch.failures.items()} == {0: "EnvError", 1: "EnvError"}
    finally:
        ew.unregister("rewards-failing")


def test_an_environment_with_a_transform_passes_the_checks():
    class Scored(Env):
        transform = Half()

    assert check_env(Scored).ok


def test_transforms_can_be_copied_and_pickled():
    for twin in (copy.deepcopy(create_math_env_transform(7)), pickle.loads(pickle.dumps(create_math_env_transform(7)))):
        assert twin.transforms[0].expected_answer == 7


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MathProblemTransform(3, tolerance="a"), "tolerance is 'a'"),
        (lambda: MathProblemTransform(3, tolerance=-1), "tolerance is -1"),
        (lambda: MathProblemTransform(3, reward="a"), "reward is 'a'"),
        (lambda: MathProblemTransform(3, reward=float("nan")), "reward is nan"),
        (lambda: CodeSafetyTransform("x"), "penalty is 'x'"),
        (lambda: CodeSafetyTransform(patterns=5), "patterns is 5"),
        (lambda: CodeQualityTransform(concise_bonus=None), "concise_bonus is None"),
        (lambda: CodeQualityTransform(max_length_threshold="a"), "max_length_threshold is 'a'"),
        (lambda: CodeQualityTransform(syntax_penalty=True), "syntax_penalty is True"),
    ],
)
def test_what_is_no_number_is_refused_where_it_is_given(make, said):
    with pytest.raises(ew.UsageError) as caught:
        make()
    assert caught.value.message == said
    assert caught.value.hint

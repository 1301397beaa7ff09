"""What an environment's transform makes of a step, whatever shape the step has."""

from dataclasses import dataclass

import pytest

import envweave as ew
from envweave.types import State


@dataclass
class Seen(ew.Observation):
    word: str = ""


SHAPES = {
    "observation": lambda seen: seen,
    "result": lambda seen: ew.StepResult(seen, 2.0, info={"from": "env"}),
    "tuple": lambda seen: (seen, 2.0, False, False, {"from": "env"}),
}


class Shaped(ew.Environment[dict, Seen]):
    """Gives its step in one of several shapes."""

    def __init__(self, shape, reward=2.0):
        self.shape, self.reward = shape, reward

    def reset(self, *, seed=None):
        return Seen()

    def step(self, action):
        given = self.reward if self.shape == "observation" else None
        return SHAPES[self.shape](Seen(word="hi", reward=given, metadata={"own": 1}))


def double(seen):
    return Seen(word=seen.word + "!", reward=seen.reward * 2, metadata={**seen.metadata, "doubled": True})


def broken(seen):
    raise ZeroDivisionError("why")


@pytest.fixture(params=SHAPES)
def env(request):
    made = Shaped(request.param)
    with ew.adapt(made) as handle:
        handle.reset()
        yield made, handle


def test_it_sees_the_reward_and_says_the_new_one(env):
    made, handle = env
    assert handle.step({}).reward == 2.0
    made.transform = double
    result = handle.step({})
    assert result.reward == 4.0
    assert result.observation.word == "hi!"
    assert result.info["doubled"]
    made.transform = None
    assert handle.step({}).reward == 2.0


def test_what_the_environment_said_beside_the_observation_is_kept(env):
    made, handle = env
    made.transform = double
    if made.shape != "observation":
        assert handle.step({}).info["from"] == "env"
    assert handle.step({}).info["own"] == 1


def test_one_that_raises_leaves_the_step_unscored_and_says_why(env):
    made, handle = env
    made.transform = broken
    result = handle.step({})
    assert result.reward is None
    assert "ZeroDivisionError: why" in result.info["error"]["message"]
    assert result.observation.word == "hi"
    assert not result.done
    made.transform = None
    assert handle.step({}).reward == 2.0


def test_one_that_takes_the_reward_away_leaves_none(env):
    made, handle = env
    made.transform = lambda seen: Seen(word=seen.word)
    assert handle.step({}).reward is None


@pytest.mark.parametrize("wrong", [None, 5.0, "text", [1]])
def test_one_that_returns_no_observation_leaves_the_step_unscored_and_says_what_it_was(env, wrong):
    made, handle = env
    made.transform = lambda seen: wrong
    result = handle.step({})
    assert result.reward is None
    assert result.info["error"]["message"] == f"transform returned {wrong!r}"
    assert result.observation.word == "hi"


def test_an_environment_that_applies_it_itself_has_it_applied_once():
    class Own(Shaped):
        applies_transform = True

        def step(self, action):
            return self.transform(super().step(action))

    made = Own("observation")
    made.transform = double
    with ew.adapt(made) as handle:
        handle.reset()
        assert handle.step({}).reward == 4.0


def test_a_reward_of_zero_is_a_reward():
    made = Shaped("observation", reward=0.0)
    made.transform = lambda seen: Seen(reward=seen.reward + 1)
    with ew.adapt(made) as handle:
        handle.reset()
        assert handle.step({}).reward == 1.0


# The episode's name in a state that was not told it.


class Told(ew.Environment[dict, int]):
    def __init__(self, state):
        self._state = state

    def reset(self, *, seed=None):
        return 0

    def step(self, action):
        return 0

    @property
    def state(self):
        return self._state


def test_a_state_without_the_episodes_name_is_given_it_as_a_copy():
    own = State(step_count=7)
    with ew.adapt(Told(own)) as env:
        env.reset(episode_id="mine")
        assert env.state() == State(episode_id="mine", step_count=7)
        assert own.episode_id is None


def test_a_state_with_a_name_of_its_own_keeps_it():
    with ew.adapt(Told(State(episode_id="own"))) as env:
        env.reset(episode_id="mine")
        assert env.state().episode_id == "own"


@pytest.mark.parametrize("state", [{"episode_id": None}, "text", 5])
def test_a_state_of_another_kind_is_left_as_it_is(state):
    with ew.adapt(Told(state)) as env:
        env.reset()
        assert env.state() == state

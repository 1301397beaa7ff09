"""What an environment's transform makes of a step, whatever shape the step has."""

import asyncio
from dataclasses import dataclass

import pytest

import envweave as ew
from envweave.client import EnvClient
from envweave.core.transform import scored
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


def test_a_state_names_the_episode_as_its_requests_do():
    with ew.adapt(Told(State(episode_id="own"))) as env:
        env.reset(episode_id="mine")
        assert env.state().episode_id == "mine"


@pytest.mark.parametrize("state", [{"episode_id": None}, "text", 5])
def test_a_state_of_another_kind_is_left_as_it_is(state):
    with ew.adapt(Told(state)) as env:
        env.reset()
        assert env.state() == state


# A result that says something twice.


@pytest.mark.parametrize("shape", ["result", "tuple"])
def test_of_two_rewards_the_one_beside_the_observation_is_the_steps(shape):
    made = Shaped(shape)
    made.step = lambda action: SHAPES[shape](Seen(word="hi", reward=7.0))
    with ew.adapt(made) as handle:
        handle.reset()
        handle.transform = double
        assert handle.step({}).reward == 4.0


def test_one_may_end_the_episode_whatever_shape_the_step_has(env):
    made, handle = env
    made.transform = lambda seen: Seen(reward=1.0, done=True)
    assert handle.step({}).terminated


def test_one_does_not_undo_the_end_that_stands_beside_the_observation():
    made = Shaped("tuple")
    made.step = lambda action: (Seen(), 2.0, False, True, {})
    with ew.adapt(made) as handle:
        handle.reset()
        handle.transform = double
        assert handle.step({}).truncated


# A transform that gives what is no number, or no observation.


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "5", [1.0]])
def test_a_reward_that_is_no_number_leaves_the_step_unscored_and_says_why(env, wrong):
    made, handle = env
    made.transform = lambda seen: Seen(word="x", reward=wrong)
    result = handle.step({})
    assert result.reward is None
    assert result.info["error"]["message"].startswith("the transform's reward ")
    assert result.observation.word == "hi"
    assert scored(made.transform, Seen(word="hi")).reward is None


def test_a_mapping_is_an_observation_only_if_it_says_so(env):
    made, handle = env
    made.transform = lambda seen: {"x": 1}
    result = handle.step({})
    assert result.info["error"]["message"] == "transform returned {'x': 1}"
    made.transform = lambda seen: {"x": 1, "reward": 3.0}
    assert handle.step({}).reward == 3.0


# Set on a handle.


class Bare:
    """Somebody's environment, that has never heard of transforms."""

    def reset(self, seed=None):
        return {"reward": None}

    def step(self, action):
        return {"reward": 1.0}

    def snapshot(self):
        return None

    def restore(self, snapshot):
        pass


def more(seen):
    return {**seen, "reward": seen["reward"] + 1.0}


def test_it_is_set_and_taken_away_on_the_handle_at_any_time(env):
    made, handle = env
    handle.transform = double
    assert made.transform is handle.transform is double
    assert handle.step({}).reward == 4.0
    handle.transform = None
    assert handle.step({}).reward == 2.0


def test_it_is_set_for_await_as_well(env):
    _, handle = env
    handle.aio.transform = double
    assert handle.aio.transform is handle.transform is double
    assert asyncio.run(handle.aio.step({})).reward == 4.0


def test_it_is_set_on_an_async_environment_from_both_sides():
    class Awaited(ew.AsyncEnvironment[dict, Seen]):
        async def reset(self, *, seed=None):
            return Seen()

        async def step(self, action):
            return Seen(reward=2.0)

    with ew.adapt(Awaited()) as handle:
        handle.reset()
        handle.transform = double
        assert handle.aio.transform is double
        assert handle.step({}).reward == 4.0


def test_an_environment_without_a_place_for_it_has_it_all_the_same():
    with ew.adapt(Bare()) as handle:
        assert handle.transform is None
        handle.reset()
        handle.transform = more
        assert handle.step({}).reward == 2.0


def test_a_fork_has_it_too():
    with ew.make("lineworld") as handle:
        handle.reset(seed=1)
        handle.transform = lambda seen: 1 / 0
        with handle.fork() as twin:
            assert "ZeroDivisionError" in twin.step({"move": 1}).info["error"]["message"]


def test_a_fork_keeps_the_transform_of_its_own_environment_if_no_other_was_set():
    class Selfish(Bare):
        def __init__(self):
            self.transform = self.score

        def score(self, seen):
            return {"reward": 5.0, "by": self}

        def fork(self):
            return Selfish()

    made = Selfish()
    with ew.adapt(made) as handle:
        handle.reset()
        with handle.fork() as twin:
            assert twin.step({}).observation["by"] is twin.unwrapped is not made
            twin.transform = more
            with twin.fork() as third:
                assert third.step({}).reward == 2.0


def test_an_environment_that_cannot_hold_it_says_so():
    class Full(Bare):
        transform = property(lambda self: None)

    with ew.adapt(Full()) as handle, pytest.raises(ew.UsageError, match="takes no transform") as caught:
        handle.transform = more
    assert caught.value.hint


def test_what_cannot_be_called_is_no_transform(env):
    _, handle = env
    with pytest.raises(ew.UsageError, match="transform is 5"):
        handle.transform = 5


def test_a_vector_says_where_it_belongs():
    with ew.make_vector("counter", 2) as vector, pytest.raises(ew.UsageError, match="no transform") as caught:
        vector.transform = double
    assert "transform=" in caught.value.hint


def test_an_environment_on_a_server_keeps_its_own():
    client = EnvClient("http://localhost:1")
    for handle in (client, client.aio):
        with pytest.raises(ew.UsageError, match="is the server's") as caught:
            handle.transform = double
        assert caught.value.hint

"""What is known of an environment before one is built."""

from dataclasses import dataclass

import pytest

from envweave.core.spec import EnvSpec
from envweave.envs.echo import EchoEnvironment
from envweave.envs.lineworld import LineWorldEnv
from envweave.envs.nim import NimEnv
from envweave.errors import UnsupportedError, UsageError
from envweave.server.offer import Offer, check_settings
from envweave.types import Action, Observation


@dataclass
class Push(Action):
    force: float


@dataclass
class Seen(Observation):
    at: float


class Untyped:
    """Knows nothing of types. Really."""

    def reset(self, where=0, *, seed=None, **rest):
        return 0

    def step(self, action):
        return action


def make():
    return LineWorldEnv()


def make_known() -> LineWorldEnv:
    return LineWorldEnv()


def offer(env, action=None, observation=None, state=None, name=None):
    return Offer.of(env, action, observation, state, name)


@pytest.mark.parametrize(
    "env", [LineWorldEnv, LineWorldEnv(), make_known, EnvSpec(id="LineWorldEnv", factory=LineWorldEnv)]
)
def test_types_are_read_off_whatever_is_offered(env):
    found = offer(env)
    assert found.action_schema()["properties"]["move"]["enum"] == [-1, 1]
    assert "goal" in found.schemas()["observation"]["properties"]
    assert found.may_have("snapshot")
    assert not found.may_have("respond")


def test_of_a_function_that_does_not_say_what_it_makes_everything_is_possible_until_it_has_made_one():
    found = offer(make)
    assert found.action_schema() is None
    assert found.may_have("respond")
    assert found.single_thread is None
    assert found.reset_options() == ([], True)
    found.learn(found.plan({}, autoreset=False).build())
    assert found.action_schema()["title"] == "Move"
    assert not found.may_have("respond")
    assert found.single_thread is False
    assert found.reset_options() == (["seed"], False)


def test_types_that_are_given_win():
    found = offer(Untyped, Push, Seen, name="pushing")
    assert found.name == "pushing"
    assert "force" in found.action_schema()["properties"]
    assert "at" in found.schemas()["observation"]["properties"]
    assert found.schemas()["reset_observation"] == found.schemas()["observation"]


def test_without_types_anything_fits():
    found = offer(Untyped)
    assert found.schemas()["action"] == found.schemas()["observation"] == {}
    assert found.spec.description == "Knows nothing of types. Really."
    assert found.reset_options() == (["where", "seed"], True)


def test_several_agents_are_seen_in_an_instance():
    assert offer(NimEnv()).multi_agent
    assert not offer(EchoEnvironment()).multi_agent


def test_what_is_no_environment_is_refused():
    with pytest.raises(UsageError, match="a int is not an environment"):
        offer(3)


def test_an_instance_stays_where_it_is_and_has_one_session():
    found = offer(EchoEnvironment())
    assert not found.concurrent
    with pytest.raises(UnsupportedError, match="cannot be moved"):
        check_settings(found, "process", None)
    with pytest.raises(UsageError, match="disturb each other"):
        check_settings(found, "thread", 2)
    check_settings(found, "thread", 1)

"""Several agents: exactly those who must act, ends for each who leaves, joins."""

import gymnasium as gym
import pytest

import envweave as ew
from envweave.errors import BadResultError, InvalidActionError, ResetNeededError, WrongAgentError
from support.clocks import adapt


class Script:
    """Plays the steps it is given: each is (agents after it, what it returns)."""

    def __init__(self, agents, steps, to_act=None):
        self.possible_agents = list(agents)
        self._agents, self._steps, self._to_act = agents, steps, to_act

    def reset(self):
        self.agents = list(self._agents)
        self.at = 0
        if self._to_act:
            self.to_act = self._to_act[0]
        return dict.fromkeys(self.agents, 0), {}

    def step(self, actions):
        self.seen = actions
        agents, returned = self._steps[self.at]
        self.at += 1
        self.agents = list(agents)
        if self._to_act:
            self.to_act = self._to_act[self.at]
        return returned


def five(agents, ended=(), cut=(), reward=1.0, **extra):
    terminated = {agent: agent in ended for agent in agents}
    truncated = {agent: agent in cut for agent in agents}
    return dict.fromkeys(agents, 0), dict.fromkeys(agents, reward), terminated | extra, truncated, {}


def asked(requests):
    return [request.agent_id for request in requests if isinstance(request, ew.NeedAction)]


def ended(requests):
    return [(r.agent_id, r.reason) for r in requests if isinstance(r, ew.EpisodeEnd)]


def play(*script, **options):
    env = ew.adapt(Script(*script, **options), id="t#0")
    return env, env.reset()


def test_nim_asks_one_after_the_other_and_the_last_stone_wins():
    with ew.make("nim", heaps=[1, 1]) as env:
        assert asked(env.reset().requests) == ["alice"]
        middle = env.step({"alice": {"heap": 0, "count": 1}})
        assert asked(middle.requests) == ["bob"]
        assert middle.reward == {"alice": 0.0, "bob": 0.0}
        last = env.step({"bob": {"heap": 1, "count": 1}})
        assert last.reward == {"bob": 1.0, "alice": -1.0}
        assert last.done
        assert ended(last.requests) == [(None, "terminated")]


def test_rock_paper_scissors_asks_both_at_once():
    with ew.make("rock-paper-scissors", rounds=1) as env:
        assert asked(env.reset().requests) == ["left", "right"]
        last = env.step({"left": {"hand": "rock"}, "right": {"hand": "scissors"}})
        assert last.reward == {"left": 1.0, "right": -1.0}
        assert last.obs["right"].other == "rock"
        assert last.done


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        ({"bob": {"heap": 0, "count": 1}}, WrongAgentError, "'bob' is not to act now"),
        ({}, WrongAgentError, "no action for agent 'alice'"),
        ({"alice": {"heap": 0, "count": 1}, "bob": None}, WrongAgentError, "'bob' is not to act now"),
        ({"carol": 1}, WrongAgentError, "'carol' is not to act now"),
        ({"heap": 0, "count": 1}, WrongAgentError, "'heap' is not to act now"),
        ("alice", InvalidActionError, "not a dict by agent"),
        ({"alice": {"heap": "x", "count": 1}}, InvalidActionError, "alice: .*heap"),
    ],
)
def test_wrong_agents_and_actions_are_refused_and_change_nothing(actions, error, message):
    with ew.make("nim", heaps=[2]) as env:
        env.reset()
        with pytest.raises(error, match=message):
            env.step(actions)
        assert env.state().step_count == 0
        assert asked(env.pending) == ["alice"]
        env.step({"alice": {"heap": 0, "count": 1}})


def test_everybody_gets_the_schema_of_an_action():
    with ew.make("nim") as env:
        (need,) = env.reset().requests
        assert set(need.action_schema["properties"]) == {"heap", "count"}
        assert env.action_schema("bob") == need.action_schema


def test_an_agent_that_ends_early_is_told_once_and_not_asked_again():
    steps = [("bc", five("abc", ended="a")), ("bc", five("bc")), ((), five("bc", ended="b", cut="c"))]
    env, _ = play("abc", steps)
    first = env.step(dict.fromkeys("abc", 0))
    assert ended(first.requests) == [("a", "terminated")]
    assert asked(first.requests) == ["b", "c"]
    assert not first.done
    with pytest.raises(WrongAgentError, match="'a' is not to act"):
        env.step(dict.fromkeys("abc", 0))
    second = env.step(dict.fromkeys("bc", 0))
    assert ended(second.requests) == []
    last = env.step(dict.fromkeys("bc", 0))
    assert ended(last.requests) == [(None, "terminated")]
    assert last.done
    with pytest.raises(ResetNeededError):
        env.step({})


def test_a_dead_agent_that_stays_in_the_list_of_agents_is_not_asked():
    env, _ = play("ab", [("ab", five("ab", cut="a")), ("ab", five("b", ended="b"))])
    first = env.step({"a": 0, "b": 0})
    assert ended(first.requests) == [("a", "truncated")]
    assert asked(first.requests) == ["b"]
    assert env.step({"b": 0}).done


def test_an_agent_that_vanishes_without_a_flag_has_left():
    env, _ = play("ab", [("b", five("ab")), ((), five("b"))])
    assert ended(env.step({"a": 0, "b": 0}).requests) == [("a", "agent_left")]
    last = env.step({"b": 0})
    assert ended(last.requests) == [(None, "agent_left")]
    assert last.done


def test_an_agent_may_join():
    env, reset = play("a", [("ab", five("ab")), ((), five("ab", __all__=True))])
    assert asked(reset.requests) == ["a"]
    assert asked(env.step({"a": 0}).requests) == ["a", "b"]
    assert env.step({"a": 0, "b": 0}).done


@pytest.mark.parametrize("who", ["terminated", "truncated"])
def test_all_ends_the_episode_for_everybody(who):
    observation, reward, terminated, truncated, info = five("ab")
    (terminated if who == "terminated" else truncated)["__all__"] = True
    env, _ = play("ab", [("ab", (observation, reward, terminated, truncated, info))])
    last = env.step({"a": 0, "b": 0})
    assert ended(last.requests) == [(None, who)]
    assert last.done


def test_flags_that_are_false_for_everybody_do_not_end_the_episode():
    env, _ = play("ab", [("ab", five("ab"))])
    assert not env.step({"a": 0, "b": 0}).done


def test_all_who_are_cut_off_make_a_truncated_episode():
    env, _ = play("ab", [((), five("ab", cut="ab"))])
    last = env.step({"a": 0, "b": 0})
    assert ended(last.requests) == [(None, "truncated")]
    assert last.truncated["__all__"] is True
    assert last.terminated["__all__"] is False


def test_a_subset_may_be_asked():
    env, reset = play("abc", [("abc", five("abc"))], to_act=[("a", "c"), "b"])
    assert asked(reset.requests) == ["a", "c"]
    assert asked(env.step({"a": 1, "c": 2}).requests) == ["b"]
    assert env.unwrapped.seen == {"a": 1, "c": 2}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((0, {"a": 1.0}, {"a": False}, {"a": False}, {}), "observation is a int"),
        (({"a": 0}, 1.0, {"a": False}, {"a": False}, {}), "reward is a float"),
        (({"a": 0}, {"a": float("nan")}, {"a": False}, {"a": False}, {}), "reward is nan"),
        (({"a": 0}, {"a": 0.0}, {"a": "no"}, {"a": False}, {}), r"terminated\['a'\] is 'no'"),
    ],
)
def test_results_that_are_not_by_agent_are_the_authors_error(returned, message):
    env, _ = play("a", [("a", returned)])
    with pytest.raises(BadResultError, match=message) as caught:
        env.step({"a": 0})
    assert ended(caught.value.requests) == [(None, "infra_error")]


def test_nobody_to_act_in_a_running_episode_is_the_authors_error():
    env, _ = play("ab", [("ab", five("ab"))], to_act=["a", ()])
    with pytest.raises(BadResultError, match="no agent is to act"):
        env.step({"a": 0})


def test_a_failure_leaves_every_agent_unscored():
    class Fails(Script):
        def step(self, actions):
            raise OSError("gone")

    ew.register("fails", lambda: Fails("ab", []), overwrite=True)
    with ew.make_vector("fails", 1) as vector:
        vector.reset()
        row = vector.step([{"a": 0, "b": 0}])[0]
    assert row.reward == {"a": None, "b": None}
    assert row.done
    assert ended(row.requests) == [(None, "infra_error")]


def test_a_missed_deadline_ends_the_episode_for_all_and_names_who_was_asked():
    now = [0.0]
    env = adapt(Script("ab", []), deadline=1.0, clock=lambda: now[0])
    env.reset()
    now[0] = 2.0
    late = env.step({"a": 0, "b": 0})
    assert ended(late.requests) == [(None, "timeout")]
    assert "a, b" in late.info["error"]["message"]
    assert late.done


def test_autoreset_asks_the_first_agents_of_the_next_episode():
    with ew.make("nim", heaps=[1], autoreset=True) as env:
        env.reset()
        result = env.step({"alice": {"heap": 0, "count": 1}})
        assert [request.kind for request in result.requests] == ["episode_end", "autoreset_ready", "need_action"]
        assert asked(result.requests) == ["alice"]
        assert result.requests[1].initial_obs["bob"].heaps == [1]


def test_an_environment_that_has_agents_only_after_its_reset_says_so_in_its_class():
    class Late:
        agents: list[str]

        def reset(self):
            self.agents = ["a", "b"]
            return {"a": 0, "b": 0}, {}

        def step(self, actions):
            return five("ab", __all__=True)

    env = ew.adapt(Late())
    assert asked(env.reset().requests) == ["a", "b"]
    assert env.step({"a": 0, "b": 0}).done


def test_an_agent_that_the_environment_itself_declares_gone_is_not_asked_again():
    left = ew.EpisodeEnd(reason="agent_left", agent_id="b")
    env, _ = play("ab", [("ab", ew.StepResult({"a": 0}, {"a": 0.0}, {}, {}, requests=[left]))])
    step = env.step({"a": 0, "b": 0})
    assert ended(step.requests) == [("b", "agent_left")]
    assert asked(step.requests) == ["a"]


def test_agents_that_are_not_named_by_strings_are_refused():
    with pytest.raises(BadResultError, match="cannot be named 1"):
        play([1, 2], [])


class Named:
    """Names its agents in reset, and what they may do by agent, as PettingZoo does."""

    possible_agents = ["a", "b"]  # noqa: RUF012
    agents: list[str]

    def action_space(self, agent):
        return {"a": gym.spaces.Discrete(2), "b": gym.spaces.Discrete(3)}[agent]

    def reset(self):
        self.agents = ["b"]
        return {"b": 0}, {}

    def step(self, actions):
        return five("b", __all__=True)


def test_before_the_first_reset_the_schema_is_that_of_a_possible_agent():
    env = ew.adapt(Named())
    assert env.action_schema()["maximum"] == 1
    assert env.action_schema("b")["maximum"] == 2
    assert env.action_schema("nobody") is None
    env.reset()
    assert env.action_schema()["maximum"] == 2, "now there is only b"


def test_before_the_first_reset_there_is_no_schema_if_no_agent_is_known():
    class Unnamed(Named):
        possible_agents = None

    env = ew.adapt(Unnamed())
    assert env.action_schema() is None
    env.reset()
    assert env.action_schema()["maximum"] == 2


def test_a_type_for_all_agents_is_the_schema_before_any_is_known():
    class Typed:
        agents: list[str]

        def reset(self): ...

        def step(self, actions: dict[str, int]): ...

    assert ew.adapt(Typed()).action_schema() == {"type": "integer"}


def test_agents_that_cannot_be_read_before_a_reset_give_no_schema():
    class Lazy(Named):
        @property
        def agents(self):
            return self.state["agents"]

        def __init__(self):
            self.state = {"agents": ["a"]}

    env = ew.adapt(Lazy())
    env.unwrapped.state = {}
    assert env.action_schema() is None

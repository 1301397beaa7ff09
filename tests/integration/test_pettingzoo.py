"""PettingZoo in both directions: its environments through envweave, and ours through it."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Literal

import httpx
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import conversions

import envweave as ew
from envweave.adapters.pettingzoo import as_aec_env, as_parallel_env
from envweave.adapters.spaces import SchemaSpace
from envweave.core.jsonable import to_json
from envweave.core.middleware import MiddlewareBackend
from envweave.envs.nim import Heaps, NimEnv, Take
from envweave.errors import ResetNeededError, WrongAgentError
from envweave.multiagent.turns import TurnBased
from envweave.testing import running_server
from support.clocks import adapt

with warnings.catch_warnings():  # where pygame is installed, this imports a game by its deprecated name
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
    from pettingzoo.test.example_envs import (
        generated_agents_env_action_mask_info_v0,
        generated_agents_env_v0,
        generated_agents_parallel_v0,
    )

LIVES = {"cat_0": (0, 2), "dog_0": (0, 5), "owl_0": (3, 5)}


class Lives(ParallelEnv):
    """All alive act at once. Each has a first and a last step; the last one is cut off there, the others die."""

    metadata: ClassVar = {"name": "lives_v0"}
    render_mode = None

    def __init__(self, lives: dict[str, tuple[int, int]] = LIVES) -> None:
        self.possible_agents = list(lives)
        self.lives = lives

    @functools.cache  # noqa: B019  # PettingZoo wants the same object each time
    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(3)

    @functools.cache  # noqa: B019
    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Box(0, 1, (2,), dtype=np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "chance"):
            self.chance = np.random.default_rng(seed)
        self.time = 0
        self.agents = [agent for agent, (born, _) in self.lives.items() if born == 0]
        return {agent: self.look() for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.time += 1
        end = max(last for _, last in self.lives.values())
        there = self.agents + [agent for agent, (born, _) in self.lives.items() if born == self.time]
        rewards = {agent: actions.get(agent, 0) + self.chance.integers(10) for agent in there}
        terminated = {agent: self.lives[agent][1] == self.time != end for agent in there}
        truncated = dict.fromkeys(there, self.time == end)
        self.agents = [agent for agent in there if not (terminated[agent] or truncated[agent])]
        infos = {agent: {"time": self.time} for agent in there}
        return {agent: self.look() for agent in there}, rewards, terminated, truncated, infos

    def look(self) -> np.ndarray:
        return self.chance.uniform(0.1, 1.0, 2).astype(np.float32)

    def render(self) -> str:
        return f"{self.time}: {' '.join(self.agents)}"

    def close(self) -> None:
        self.time = -1


class Table(AECEnv):
    """Players at a table, each with a number of turns before it has to go. Who moves last is cut off."""

    metadata: ClassVar = {"name": "table_v0"}
    render_mode = None

    def __init__(self, turns: dict[str, int] | None = None, late: str = "") -> None:
        self.turns = turns or {"ann_0": 1, "bob_0": 3, "eve_0": 2}
        self.late = late
        self.possible_agents = list(self.turns)

    @functools.cache  # noqa: B019
    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(3)

    @functools.cache  # noqa: B019
    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Box(0, 100, (2,), dtype=np.int64)

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "chance"):
            self.chance = np.random.default_rng(seed)
        self.left = dict(self.turns)
        self.moves = 0
        self.agents = []
        self.rewards, self._cumulative_rewards, self.terminations, self.truncations, self.infos = {}, {}, {}, {}, {}
        for agent in self.turns:
            if agent != self.late:
                self.sit_down(agent)
        self._skip_agent_selection = None
        self.agent_selection = self.agents[0]

    def sit_down(self, agent: str) -> None:
        self.agents.append(agent)
        self.rewards[agent] = self._cumulative_rewards[agent] = 0
        self.terminations[agent] = self.truncations[agent] = False
        self.infos[agent] = {"seat": len(self.agents)}

    def observe(self, agent: str) -> np.ndarray:
        return np.array([self.moves + 1, self.left[agent]], dtype=np.int64)

    def step(self, action):
        mover = self.agent_selection
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[mover] = 0
        self.moves += 1
        self.left[mover] -= 1
        self.rewards = {agent: int(action) * (agent == mover) + self.chance.integers(5) for agent in self.agents}
        if self.moves == 2 and self.late:
            self.sit_down(self.late)
        here = [agent for agent in self.agents if self.left[agent]]
        self.terminations[mover] = not self.left[mover] and bool(here)
        self.truncations[mover] = not here
        self._accumulate_rewards()
        after = [agent for agent in here if self.agents.index(agent) > self.agents.index(mover)]
        self.agent_selection = (after or here or [mover])[0]
        self._deads_step_first()

    def render(self) -> str:
        return f"{self.agent_selection} to move"

    def close(self) -> None:
        self.agents = []


def game(name: str, make: str = "env") -> Any:
    """One of PettingZoo's own games. They need pygame even to be imported."""
    if "pygame" not in os.environ.get("ENVWEAVE_REQUIRE", ""):
        pytest.importorskip("pygame", reason="PettingZoo's games need pygame: pip install pygame")
    return getattr(importlib.import_module(f"pettingzoo.classic.{name}.{name}"), make)()


TURN_BASED = {
    "agents at a table": Table,
    "an agent that comes late": lambda: Table(late="eve_0"),
    "agents that come and go": lambda: generated_agents_env_v0.raw_env(max_cycles=20),
    "agents that come and go, masked": lambda: generated_agents_env_action_mask_info_v0.raw_env(max_cycles=20),
    "parallel_to_aec": lambda: conversions.parallel_to_aec(Lives()),
    "rps": lambda: game("rps"),
    "tictactoe": lambda: game("tictactoe"),
    "connect_four": lambda: game("connect_four"),
}

SIMULTANEOUS = {
    "agents that come and go": Lives,
    "aec_to_parallel": lambda: conversions.aec_to_parallel_wrapper(conversions.parallel_to_aec(Lives())),
    "turn_based_aec_to_parallel": lambda: conversions.turn_based_aec_to_parallel(Table()),
    "rps": lambda: game("rps", "parallel_env"),
    "tictactoe": lambda: conversions.turn_based_aec_to_parallel(game("tictactoe")),
}


def adapted(factory: Callable[[], Any]) -> ew.EnvHandle[Any]:
    return ew.adapt(factory())


def made(factory: Callable[[], Any]) -> ew.EnvHandle[Any]:
    ew.register("a-pettingzoo-game", factory, overwrite=True)
    return ew.make("a-pettingzoo-game")


@pytest.fixture(autouse=True)
def names_are_given_back() -> Iterator[None]:
    before = set(ew.registry())
    yield
    for name in set(ew.registry()) - before:
        ew.unregister(name)


@dataclass
class Episode:
    """What a driver saw."""

    totals: Counter[str] = field(default_factory=Counter)
    moves: list[dict[str, int]] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)
    ends: list[ew.EpisodeEnd] = field(default_factory=list)

    def end_of(self, agent: str | None) -> str:
        (end,) = [end for end in self.ends if end.agent_id == agent]
        return end.reason


def choose(space: spaces.Discrete, observation: Any, info: dict[str, Any], random: Random) -> int:
    """A legal action: of those the mask allows, if there is one."""
    seen = observation if isinstance(observation, dict) else {}
    mask = seen.get("action_mask", info.get("action_mask"))
    legal = [i for i in range(space.n) if mask is None or mask[i]]
    return int(space.start) + random.choice(
        legal or [0]
    )  # turn_based_aec_to_parallel asks those in vain who may not move


def play(env: ew.EnvHandle[Any], seed: int) -> Episode:
    """A random episode through envweave. Checks at each step who is asked."""
    random, episode = Random(seed), Episode()
    result: Any = env.reset(seed=seed)
    inner: Any = env.backend.env
    while not result.done:
        asked = [request.agent_id for request in result.requests if isinstance(request, ew.NeedAction)]
        turns = isinstance(inner, TurnBased)
        assert asked == ([inner.unwrapped.agent_selection] if turns else list(inner.agents))
        actions = {
            agent: choose(inner.action_space(agent), result.obs[agent], result.info.get(agent, {}), random)
            for agent in asked
        }
        result = env.step(actions)
        episode.asked.append(asked)
        episode.moves.append(actions)
        episode.totals.update(result.reward)
        episode.ends += [request for request in result.requests if isinstance(request, ew.EpisodeEnd)]
    assert not env.pending
    return episode


def play_natively(env: Any, seed: int) -> Episode:
    """The same episode without envweave, the way PettingZoo's documentation drives an environment."""
    random, episode = Random(seed), Episode()
    if isinstance(env, ParallelEnv):
        observations, infos = env.reset(seed=seed)
        while env.agents:
            actions = {
                agent: choose(env.action_space(agent), observations[agent], infos[agent], random)
                for agent in env.agents
            }
            episode.moves.append(actions)
            observations, rewards, _, _, infos = env.step(actions)
            episode.totals.update(rewards)
        return episode
    env.reset(seed=seed)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        episode.totals[agent] += reward
        action = None
        if not (terminated or truncated):
            action = choose(env.action_space(agent), observation, info, random)
            episode.moves.append({agent: action})
        env.step(action)
    return episode


# Theirs through ours.


@pytest.mark.parametrize("opened", [adapted, made])
@pytest.mark.parametrize("factory", TURN_BASED.values(), ids=TURN_BASED)
def test_a_turn_based_game_plays_as_it_does_natively(factory: Callable[[], Any], opened: Any) -> None:
    native = play_natively(factory(), seed=5)
    with opened(factory) as env:
        episode = play(env, seed=5)
    assert episode.moves == native.moves
    assert episode.totals == native.totals
    assert all(len(asked) == 1 for asked in episode.asked)
    assert sum(end.agent_id is None for end in episode.ends) == 1


@pytest.mark.parametrize("opened", [adapted, made])
@pytest.mark.parametrize("factory", SIMULTANEOUS.values(), ids=SIMULTANEOUS)
def test_a_simultaneous_game_plays_as_it_does_natively(factory: Callable[[], Any], opened: Any) -> None:
    native = play_natively(factory(), seed=5)
    with opened(factory) as env:
        episode = play(env, seed=5)
    assert episode.moves == native.moves
    assert episode.totals == native.totals
    assert sum(end.agent_id is None for end in episode.ends) == 1


@pytest.mark.parametrize("factory", [Lives, Table])
def test_a_seed_repeats_an_episode_and_another_one_differs(factory: Callable[[], Any]) -> None:
    with adapted(factory) as env:
        assert play(env, seed=1).totals == play(env, seed=1).totals != play(env, seed=2).totals


def test_agents_that_act_at_once_leave_one_by_one_with_an_end_each() -> None:
    with adapted(Lives) as env:
        episode = play(env, seed=0)
    assert episode.end_of("cat_0") == "terminated"
    assert episode.end_of(None) == "truncated"
    assert len(episode.ends) == 2  # dog and owl end with the episode
    assert episode.asked == [["cat_0", "dog_0"]] * 2 + [["dog_0"]] + [["dog_0", "owl_0"]] * 2


def test_players_who_take_turns_leave_one_by_one_with_an_end_each() -> None:
    with adapted(Table) as env:
        episode = play(env, seed=0)
    assert [end.agent_id for end in episode.ends] == ["ann_0", "eve_0", None]
    assert [episode.end_of("ann_0"), episode.end_of("eve_0"), episode.end_of(None)] == [
        "terminated", "terminated", "truncated"
    ]  # fmt: skip
    assert [asked for (asked,) in episode.asked] == ["ann_0", "bob_0", "eve_0", "bob_0", "eve_0", "bob_0"]


def test_a_player_who_comes_late_is_asked_from_then_on() -> None:
    with adapted(lambda: Table(late="eve_0")) as env:
        episode = play(env, seed=0)
    assert [asked for (asked,) in episode.asked] == ["ann_0", "bob_0", "eve_0", "bob_0", "eve_0", "bob_0"]
    with adapted(lambda: Table(late="eve_0")) as env:
        env.reset(seed=0)
        assert "eve_0" not in env.step({"ann_0": 1}).terminated
        assert env.step({"bob_0": 1}).terminated["eve_0"] is False


def test_an_action_out_of_turn_or_out_of_bounds_changes_nothing() -> None:
    with adapted(Table) as env:
        env.reset(seed=0)
        with pytest.raises(WrongAgentError, match="'bob_0' is not to act"):
            env.step({"bob_0": 1})
        with pytest.raises(ew.InvalidActionError, match="ann_0: action 9"):
            env.step({"ann_0": 9})
        assert env.step({"ann_0": 2}).terminated["ann_0"]


def test_a_parallel_env_that_names_its_agents_at_reset_is_for_several_agents() -> None:
    with adapted(generated_agents_parallel_v0.parallel_env) as env:
        result: Any = env.reset(seed=0)
        for _ in range(30):
            asked = [request.agent_id for request in result.requests if isinstance(request, ew.NeedAction)]
            assert asked == env.unwrapped.agents  # type: ignore[attr-defined]
            result = env.step(dict.fromkeys(asked, 0))


def test_an_agent_may_have_another_action_space_in_the_next_episode() -> None:
    sizes = iter((2, 3))

    class Growing(Lives):
        def reset(self, seed=None, options=None):
            self.size = next(sizes)
            return super().reset(seed, options)

        def action_space(self, agent: str) -> spaces.Space:
            return spaces.Discrete(getattr(self, "size", 1))

    with adapted(Growing) as env:
        env.reset()
        env.reset()
        env.step({"cat_0": 2, "dog_0": 2})


# Ours through theirs. PettingZoo's tests warn of whatever is no array; what they warn of here is meant.

taste = pytest.mark.filterwarnings(
    "ignore:(Action|Observation) space for each agent probably should be",
    "ignore:Observation is not a NumPy array",
    "ignore:We recommend agents to be named in the format",
)
strange_option = pytest.mark.filterwarnings("ignore:option 'options' is left out")
"""The tests pass an option of that name to see that it does no harm."""


def throws() -> ew.EnvHandle[Any]:
    return ew.make("rock-paper-scissors")


@strange_option
def test_an_exported_simultaneous_environment_passes_pettingzoos_parallel_tests() -> None:
    parallel_api_test(as_parallel_env(throws()))
    parallel_seed_test(lambda: as_parallel_env(throws()))


@taste
@strange_option
def test_a_simultaneous_environment_exported_for_turns_passes_pettingzoos_tests() -> None:
    api_test(as_aec_env(throws()))
    seed_test(lambda: as_aec_env(throws()))
    api_test(conversions.parallel_to_aec(as_parallel_env(throws())))
    parallel_api_test(conversions.aec_to_parallel(as_aec_env(throws())))


class LegalTakes(spaces.Space):
    """The moves that the heaps allow now. A JSON Schema cannot say this."""

    def __init__(self, heaps: Callable[[], list[int]]) -> None:
        super().__init__()
        self.heaps = heaps

    def sample(self, mask=None, probability=None) -> Take:
        heap = int(self.np_random.choice([i for i, stones in enumerate(self.heaps()) if stones]))
        return Take(heap, int(self.np_random.integers(1, self.heaps()[heap], endpoint=True)))

    def contains(self, x: Any) -> bool:
        return isinstance(x, Take)


class NimWithSpaces(NimEnv):
    def __init__(self) -> None:
        super().__init__()
        self.spaces = {agent: LegalTakes(lambda: self._heaps) for agent in self.agents}

    def action_space(self, agent: str) -> spaces.Space:
        return self.spaces[agent]


@taste
@strange_option
def test_an_exported_turn_based_environment_passes_pettingzoos_tests() -> None:
    api_test(as_aec_env(ew.adapt(NimWithSpaces())))
    seed_test(lambda: as_aec_env(ew.adapt(NimWithSpaces())))


def test_pettingzoos_own_environments_pass_its_tests_after_the_way_through_envweave() -> None:
    parallel_api_test(as_parallel_env(ew.adapt(Lives())))
    api_test(as_aec_env(ew.adapt(Lives())))
    api_test(as_aec_env(ew.adapt(Table())))
    api_test(as_aec_env(ew.adapt(Table(late="eve_0"))))
    native = Lives()
    assert as_parallel_env(ew.adapt(native)).action_space("cat_0") is native.action_space("cat_0")


@pytest.mark.parametrize("factory", [Lives, Table, lambda: Table(late="eve_0")])
def test_there_and_back_again_nothing_is_lost(factory: Callable[[], Any]) -> None:
    native = play_natively(factory(), seed=3)
    export = as_parallel_env if factory is Lives else as_aec_env
    exported = play_natively(export(ew.adapt(factory())), seed=3)
    assert (exported.moves, exported.totals) == (native.moves, native.totals)
    with ew.adapt(export(ew.adapt(factory()))) as env:
        again = play(env, seed=3)
    assert (again.moves, again.totals) == (native.moves, native.totals)


def test_a_turn_based_environment_is_played_by_agent_iter() -> None:
    env = as_aec_env(ew.make("nim", heaps=[2, 1]))
    env.reset()
    moves = iter([{"heap": 0, "count": 1}, Take(0, 1), {"heap": 1, "count": 1}])
    told = []
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        told.append((agent, observation["heaps"], reward, terminated))
        assert not truncated
        env.step(None if terminated else next(moves))
    assert told == [
        ("alice", [2, 1], 0.0, False),
        ("bob", [1, 1], 0.0, False),
        ("alice", [0, 1], 0.0, False),
        ("alice", [0, 0], 1.0, True),
        ("bob", [0, 0], -1.0, True),
    ]
    with pytest.raises(ResetNeededError):
        env.step(None)


def test_a_seed_given_to_the_export_reaches_the_environment() -> None:
    env, same = as_aec_env(ew.make("nim")), as_aec_env(ew.make("nim"))
    seen = []
    for seed in range(5):
        env.reset(seed=seed)
        same.reset(seed=seed)
        assert env.observe("alice") == same.observe("alice")
        seen.append(tuple(env.observe("bob")["heaps"]))
    assert len(set(seen)) > 1


def test_a_refused_move_is_raised_and_changes_nothing() -> None:
    env = as_aec_env(ew.make("nim", heaps=[2, 1]))
    env.reset()
    with pytest.raises(ew.InvalidActionError, match="cannot take 5 from heap 0"):
        env.step(Take(0, 5))
    with pytest.raises(ew.InvalidActionError, match="alice: action does not fit Take"):
        env.step({"heap": 0})
    assert env.agent_selection == "alice"
    assert env.observe("alice") == {"heaps": [2, 1]}
    env.step(Take(0, 1))
    assert env.agent_selection == "bob"


def test_after_a_refused_round_all_are_asked_again() -> None:
    env = as_aec_env(throws())
    env.reset()
    env.step({"hand": "lizard"})
    assert env.agent_selection == "right"
    with pytest.raises(ew.InvalidActionError, match="left: "):
        env.step({"hand": "rock"})
    assert env.agent_selection == "left"
    env.step({"hand": "paper"})
    env.step({"hand": "rock"})
    assert env.rewards == {"left": 1.0, "right": -1.0}


@pytest.mark.parametrize("factory", [lambda: ew.make("nim"), lambda: ew.adapt(Table())], ids=["nim", "table"])
def test_a_turn_based_environment_is_not_exported_as_a_simultaneous_one(factory: Callable[[], Any]) -> None:
    with (
        factory() as env,
        pytest.raises(ew.UsageError, match="do not act at the same time\nhint: export it with as_aec_env"),
    ):
        as_parallel_env(env)


@pytest.mark.parametrize("export", [as_parallel_env, as_aec_env])
def test_only_a_handle_on_several_agents_is_exported(export: Any) -> None:
    with ew.make("counter") as env, pytest.raises(ew.UsageError, match=r"counter.*is for one agent"):
        export(env)
    with pytest.raises(ew.UsageError, match="this is a NimEnv, not a handle"):
        export(NimEnv())


def test_the_space_of_a_typed_action_draws_what_the_environment_takes() -> None:
    env = as_parallel_env(throws())
    space, twin = env.action_space("left"), as_parallel_env(throws()).action_space("right")
    assert space is env.action_space("left")
    assert space == twin
    space.seed(7)
    twin.seed(7)
    drawn = [space.sample() for _ in range(20)]
    assert drawn == [twin.sample() for _ in range(20)]
    assert {throw["hand"] for throw in drawn} == {"rock", "paper", "scissors"}
    assert all(throw in space for throw in drawn)
    assert {"hand": "lizard"} not in space
    assert {} not in space
    assert "rock" not in space
    assert object() not in space
    with pytest.raises(ew.UsageError, match="takes no mask"):
        space.sample(mask=np.ones(3))


def test_the_space_of_a_typed_observation_is_a_dict_by_field() -> None:
    env = as_aec_env(ew.make("nim"))
    env.reset(seed=0)
    space = env.observation_space("alice")
    assert isinstance(space, spaces.Dict)
    assert list(space) == ["heaps"]
    assert env.observe("alice") in space
    assert {"heaps": [1, 2.5]} not in space
    assert Heaps([1]) not in space  # an export shows plain data only


@pytest.mark.parametrize(
    ("schema", "inside", "outside"),
    [
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 4}, [1, 3, np.int64(2)], [0, 4, 1.5, True, "1", None]),
        ({"type": "number", "multipleOf": 0.5}, [1, 2.5], [0.3, float("nan")]),
        ({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^a"}, ["ab", "abc"], ["a", "abcd", "ba", 2]),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, [None, True], [0, ""]),
        ({"type": ["integer", "null"]}, [1, None], ["x"]),
        ({"enum": ["a", 1]}, ["a", 1], ["b", [1]]),
        ({"type": "array", "prefixItems": [{"const": 1}], "items": {"type": "string"}}, [[1], (1, "a")], [[2], [1, 1]]),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [[0], np.zeros(2)], [[], [1, 2, 3], "ab"]),
        ({"type": "object", "properties": {"a": {"const": 0}}, "required": ["a"]}, [{"a": 0, "b": 1}], [{}, {"a": 1}]),
        ({"type": "object", "additionalProperties": False}, [{}], [{"a": 1}]),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}, [[[], [[]]]], [[1]]),
        ({"required": ["a"]}, [{"a": 1}, 3], [{}]),
        ({"enum": [1]}, [1], [True]),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5], [3]),
        ({"type": "array", "uniqueItems": True}, [[1, 2]], [[1, 1]]),
        ({"type": "object", "propertyNames": {"maxLength": 1}}, [{"a": 1}], [{"ab": 1}]),
        ({}, [1, "a", {}], [object()]),
        (None, [1, object()], []),
    ],
)  # fmt: skip
def test_a_schema_space_contains_what_fits(schema: Any, inside: list[Any], outside: list[Any]) -> None:
    space = SchemaSpace(schema)
    assert [value for value in inside if value not in space] == []
    assert [value for value in outside if value in space] == []


class Commons:
    """Who takes from the common store? A clerk closes it without a word. For the corners of the translation."""

    def __init__(self) -> None:
        self.agents = ["ada_0", "bea_0", "cyd_0"]
        self.to_act = ["ada_0", "cyd_0"]

    def reset(self, *, seed: int | None = None, stock: int = 9) -> tuple[dict[str, int], dict[str, Any]]:
        self.__init__()  # type: ignore[misc]
        self.stock = stock
        return dict.fromkeys(self.agents, stock), {"open": True, "bea_0": {"absent": True}}

    def step(self, actions: dict[str, int]) -> ew.StepResult[dict[str, int]]:
        self.stock -= sum(actions.values())
        self.agents = ["ada_0", "bea_0"]
        self.to_act = ["bea_0"] if self.to_act != ["bea_0"] else ["ada_0"]
        reward: dict[str, float | None] = {"ada_0": 1.0, "bea_0": None}
        return ew.StepResult({"bea_0": self.stock}, reward, {"__all__": self.stock <= 0}, False)


def test_where_some_must_act_each_of_them_is_selected_before_the_step() -> None:
    env = as_aec_env(ew.adapt(Commons()))
    env.reset()
    assert env.infos == {"ada_0": {"open": True}, "bea_0": {"open": True, "absent": True}, "cyd_0": {"open": True}}
    env.step(1)
    assert (env.agent_selection, env.rewards["ada_0"]) == ("cyd_0", 0.0)
    env.step(2)
    assert (env.agent_selection, env.truncations["cyd_0"]) == ("cyd_0", True)  # gone without a flag
    assert env.rewards == {"ada_0": 1.0, "bea_0": 0.0, "cyd_0": 0.0}
    assert env.infos["bea_0"] == {"unscored": True}
    env.step(None)
    assert (env.agents, env.agent_selection) == (["ada_0", "bea_0"], "bea_0")
    assert (env.observe("bea_0"), env.observe("ada_0")) == (6, 9)  # ada was told nothing new
    env.step(6)
    assert env.terminations == {"ada_0": True, "bea_0": True}
    assert env.last()[1] == 2.0  # since ada acted


def test_an_option_without_a_place_is_left_out_with_a_warning() -> None:
    env = as_aec_env(ew.adapt(Commons()))
    with pytest.warns(UserWarning, match="option 'weather' is left out"):
        env.reset(options={"stock": 4, "weather": "fine"})
    assert env.observe("ada_0") == 4


class Crowd(ew.AsyncEnvironment[Literal["up", "down"], int]):
    """Async, and turn-based by its requests alone after the first step."""

    def __init__(self) -> None:
        self.agents = ["one_0", "two_0"]

    async def reset(self) -> ew.ResetResult[dict[str, int]]:  # type: ignore[override]
        return ew.ResetResult({"one_0": 1, "two_0": 2})

    async def step(self, actions: dict[str, str]) -> ew.StepResult[dict[str, int]]:  # type: ignore[override]
        needs = (ew.NeedAction(agent_id="two_0"),)
        return ew.StepResult({"two_0": len(actions)}, {}, False, False, {}, needs)


def test_an_async_environment_is_exported_too() -> None:
    env = as_parallel_env(ew.adapt(Crowd()))
    with pytest.warns(UserWarning, match="left out"):
        observations, _ = env.reset(seed=1, options={"x": 1})
    assert observations == {"one_0": 1, "two_0": 2}
    assert observations["one_0"] in env.observation_space("one_0")
    env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    with pytest.raises(ew.UsageError, match="not all agents of Crowd act now: two_0\nhint: export it with as_aec_env"):
        env.step(dict.fromkeys(env.agents, "up"))
    turns = as_aec_env(ew.adapt(Crowd()))
    turns.reset()
    for selected in ("one_0", "two_0", "two_0", "two_0"):
        assert turns.agent_selection == selected
        turns.step("up")


def far(env: ew.EnvHandle[Any]) -> ew.EnvHandle[Any]:
    """The same behind a handle that does not show its environment, as one on another machine."""
    return ew.EnvHandle(OutOfSight(env, ()))


class OutOfSight(MiddlewareBackend):
    env = None  # type: ignore[assignment]


@pytest.mark.parametrize("factory", [Lives, Table, lambda: Table(late="eve_0")])
def test_an_environment_out_of_sight_is_exported_by_what_it_tells(factory: Callable[[], Any]) -> None:
    expected = play_natively(factory(), seed=3)
    exported: Any = (as_parallel_env if factory is Lives else as_aec_env)(far(ew.adapt(factory())))
    assert not hasattr(exported, "possible_agents")
    exported.reset(seed=3)
    totals: Counter[str] = Counter()
    for actions in expected.moves:
        if factory is Lives:
            assert set(exported.agents) == set(actions)
            totals.update(exported.step(actions)[1])
            continue
        while exported.agent_selection not in actions:
            exported.step(None)
        exported.step(actions[exported.agent_selection])
        totals.update(exported.rewards)
    assert totals == expected.totals


def test_an_environment_out_of_sight_is_refused_when_it_is_seen_not_to_fit() -> None:
    turns = as_parallel_env(far(ew.make("nim")))
    turns.reset(seed=0)
    with pytest.raises(ew.UsageError, match="export it with as_aec_env"):
        turns.step({"alice": Take(0, 1), "bob": Take(0, 1)})
    with pytest.raises(ew.UsageError, match="is for one agent"):
        as_parallel_env(far(ew.make("counter"))).reset()


class Asking(NimEnv):
    """Wants a tool before anybody may move."""

    def reset(self, *, seed: int | None = None) -> ew.ResetResult[dict[str, Heaps]]:
        return ew.ResetResult(super().reset(seed=seed).observation, {}, (ew.ToolCall(tool_name="search"),))


def test_an_environment_that_waits_for_a_tool_says_so() -> None:
    with pytest.raises(ew.UsageError, match="waits for a tool"):
        as_aec_env(ew.adapt(Asking())).reset()


def test_an_export_of_a_handle_with_autoreset_stops_at_the_end_of_each_episode() -> None:
    env = as_parallel_env(ew.make("rock-paper-scissors", rounds=1, autoreset=True))
    for _ in range(2):
        env.reset()
        observations, _, terminated, _, _ = env.step({"left": {"hand": "rock"}, "right": {"hand": "paper"}})
        assert observations["left"] == {"other": "paper", "won": 0, "lost": 1, "rounds_left": 0}
        assert terminated == {"left": True, "right": True}
        assert env.agents == []


def test_a_late_action_is_truncated_and_not_scored() -> None:
    now = 0.0
    env = as_aec_env(adapt(NimEnv(), deadline=1.0, clock=lambda: now))
    env.reset(seed=0)
    now = 2.0
    env.step(Take(0, 1))
    _, reward, terminated, truncated, info = env.last()
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["unscored"]
    assert info["error"]["code"] == "timeout"


# Many at once.


@pytest.mark.parametrize("backend", ["inproc", "thread"])
@pytest.mark.parametrize("factory", [Lives, Table])
def test_a_vector_plays_four_games_as_four_are_played_alone(factory: Callable[[], Any], backend: str) -> None:
    ew.register("a-pettingzoo-game", factory)
    natives = [play_natively(factory(), seed=20 + i) for i in range(4)]
    totals: list[Counter[str]] = [Counter() for _ in natives]
    ends: list[ew.EpisodeEnd] = []
    with ew.make_vector("a-pettingzoo-game", 4, backend=backend) as vector:
        batch: Any = vector.reset(seed=20)
        moves = [iter(native.moves) for native in natives]
        running = [0, 1, 2, 3]
        while running:
            batch = vector.step([next(moves[i]) for i in running], ids=running)
            assert not batch.failures
            for id, result in zip(batch.ids, batch.results, strict=True):
                totals[id].update(result.reward)
                ends += [r for r in result.requests if isinstance(r, ew.EpisodeEnd) and r.agent_id is None]
            running = [id for id, done in zip(batch.ids, batch.done, strict=True) if not done]
    assert totals == [native.totals for native in natives]
    assert sorted(end.env_id for end in ends) == [f"a-pettingzoo-game#{i}" for i in range(4)]


@pytest.mark.parametrize("backend", ["inproc", "thread"])
@pytest.mark.parametrize("factory", [Lives, Table])
def test_a_vector_with_autoreset_goes_on_with_the_agents_of_the_next_game(factory: Any, backend: str) -> None:
    ew.register("a-pettingzoo-game", factory)
    with ew.make_vector("a-pettingzoo-game", 4, backend=backend, autoreset=True) as vector:
        results: list[Any] = vector.reset(seed=0).results
        first = [request.agent_id for request in results[0].requests]
        ends = 0
        for _ in range(20):
            asked = [[r.agent_id for r in result.requests if isinstance(r, ew.NeedAction)] for result in results]
            results = vector.step([dict.fromkeys(agents, 1) for agents in asked]).results
            ends += sum(result.done for result in results)
            for result in results:
                ready = [request for request in result.requests if isinstance(request, ew.AutoresetReady)]
                assert len(ready) == result.done
                if result.done:
                    needs = [request.agent_id for request in result.requests if isinstance(request, ew.NeedAction)]
                    assert needs == first
        assert ends == 4 * (20 // (5 if factory is Lives else 6))


def test_a_missing_pettingzoo_is_advice_and_not_a_traceback_from_inside() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import envweave as ew; from envweave.adapters import as_parallel_env\n"
        "try: as_parallel_env(ew.make('rock-paper-scissors'))\n"
        "except ew.errors.UnavailableError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["'gymnasium' is not installed", "hint: pip install 'envweave[gym]'"]


def test_the_two_exports_are_at_the_door_of_the_room() -> None:
    from envweave import adapters

    assert isinstance(adapters.as_parallel_env(ew.make("rock-paper-scissors")), ParallelEnv)
    assert isinstance(adapters.as_aec_env(ew.make("nim")), AECEnv)


@pytest.mark.parametrize("target", ["tictactoe_v3:env", "connect_four_v3:env", "rps_v2:parallel_env"])
def test_one_of_pettingzoos_games_is_played_over_a_server_with_our_client(target: str) -> None:
    name, make = target.split("_v", maxsplit=1)[0], target.split(":")[1]
    native = ew.adapt(game(name, make))
    with running_server(f"pkg://pettingzoo.classic.{target}") as server, ew.make(server.url) as remote:
        assert remote.action_schema() == native.action_schema(), "before the first reset"
        assert httpx.get(f"{server.url}/schema").json()["action"] == native.action_schema()
        random = Random(1)
        here, there = native.reset(seed=3), remote.reset(seed=3)
        while not here.done:
            actions = {need.agent_id: legal(here, need, random) for need in here.requests}
            here, there = native.step(actions), remote.step(actions)
            assert to_json(there.observation) == to_json(here.observation)
            assert (there.reward, there.terminated) == (here.reward, here.terminated)
        assert there.done


def legal(result: Any, need: Any, random: Random) -> int:
    """A random action that the mask of the game allows, if it has one."""
    seen = result.observation.get(need.agent_id)
    mask = seen["action_mask"] if isinstance(seen, dict) else [1] * (need.action_schema["maximum"] + 1)
    return random.choice([action for action, allowed in enumerate(mask) if allowed])

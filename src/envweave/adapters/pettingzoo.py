"""Any environment of several agents as a PettingZoo one.

    all act at once            as_parallel_env, as_aec_env
    some act, or one by one    as_aec_env

The rules stay those of the handle and so do its errors: a move that the environment refuses is an `InvalidActionError`
and nothing has changed. What PettingZoo has no word for is said like this:

    observation    a dataclass or a model is a dict of its fields, without `done`, `reward` and `metadata`; all else
                   stays what it is. One that did not come in this step is the last that came.
    reward         None, "not scored", is 0.0, and the agent's info has `unscored`. One that comes after the agent has
                   left is lost.
    info           what is not kept by agent is in the info of each
    leaving        an agent that goes without a flag is truncated
    options        those that `reset` has no place for are left out, with a warning
    spaces         the environment's own; else a `SchemaSpace` for actions, a `Dict` of them for typed observations
"""

from __future__ import annotations

import typing
import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

from gymnasium.spaces import Space
from pettingzoo import AECEnv, ParallelEnv

from envweave.adapters.spaces import SchemaSpace, observation_space, plain
from envweave.core.handle import EnvHandle
from envweave.core.typed import types_of
from envweave.errors import EnvWeaveError, ResetNeededError, UnsupportedError, UsageError
from envweave.multiagent.referee import ALL, has_agents, roster_of
from envweave.requests import EpisodeEnd, NeedAction
from envweave.results import ResetResult, StepResult

ByAgent: TypeAlias = dict[str, Any]
Rows: TypeAlias = tuple[ByAgent, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


def as_parallel_env(env: EnvHandle[Any]) -> ParallelEnv[str, Any, Any]:
    """Export an environment whose agents act at once; the export owns the handle. Raises `UsageError` for any other."""
    _check(env)
    if _takes_turns(getattr(env, "unwrapped", None)):
        raise UnsupportedError(f"the agents of {env.id} do not act at once", "export it with as_aec_env")
    return _Parallel(env)


def as_aec_env(env: EnvHandle[Any]) -> AECEnv[str, Any, Any]:
    """Export an environment of several agents; the export owns the handle. Raises `UsageError` for one agent.

    Where several must act, each is selected in turn and the environment moves with the last of them. If it refuses,
    they are all asked again.
    """
    _check(env)
    return _Turns(env)


def _check(env: EnvHandle[Any]) -> None:
    if not isinstance(env, EnvHandle):
        raise UsageError(f"this is a {type(env).__name__}, not a handle", "pass what ew.make or ew.adapt gives")
    inner = getattr(env, "unwrapped", None)
    if inner is not None and not has_agents(inner):
        raise _alone(env)


def _alone(env: EnvHandle[Any]) -> UsageError:
    return UnsupportedError(f"{env.id} has one agent", "PettingZoo is for environments with `agents`")


def _takes_turns(inner: Any) -> bool:
    return hasattr(type(inner), "to_act") or getattr(inner, "to_act", None) is not None


class _Export:
    """What both forms share: a handle, seen agent by agent through its requests."""

    metadata: dict[str, Any]
    possible_agents: list[str]

    def __init__(self, env: EnvHandle[Any]) -> None:
        self._env = env
        self._inner = getattr(env, "unwrapped", None)
        """The environment itself if it is in this process."""
        declared = getattr(self._inner, "metadata", None) or {}
        self.metadata = {"is_parallelizable": not _takes_turns(self._inner), **declared, "name": env.id}
        self.render_mode = getattr(self._inner, "render_mode", None)
        self.agents: list[str] = []
        known = getattr(self._inner, "possible_agents", None) or getattr(self._inner, "agents", None)
        if known:  # as in PettingZoo, there is no such list where the agents are not known from the start
            self.possible_agents = list(known)
        self._live: list[str] = []
        self._met: set[str] = set()
        self._gone: set[str] = set()
        self._asked: list[str] = []
        self._seen: ByAgent = {}
        self._spaces: dict[tuple[str, str], Space[Any]] = {}

    def action_space(self, agent: str) -> Space[Any]:
        return self._space("action_space", agent)

    def observation_space(self, agent: str) -> Space[Any]:
        return self._space("observation_space", agent)

    def render(self) -> Any:
        return self._env.render()

    def state(self) -> Any:
        return self._env.state()

    def close(self) -> None:
        self._env.close()

    def _space(self, name: str, agent: str) -> Space[Any]:
        own = getattr(self._inner, name, None)
        own = own(agent) if callable(own) else own
        if isinstance(own, Space):
            return own
        if (name, agent) not in self._spaces:
            if name == "action_space":
                self._spaces[name, agent] = SchemaSpace(self._env.action_schema(agent))
            else:
                self._spaces[name, agent] = observation_space(_observation_type(self._inner, agent))
        return self._spaces[name, agent]

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> tuple[ByAgent, dict[str, dict[str, Any]]]:
        result = self._env.reset(seed=seed, options=self._accepted(options))
        if not isinstance(result.observation, Mapping):
            raise _alone(self._env)
        self._seen, self._met, self._gone, self._live = {}, set(), set(), []
        self._follow(result)
        infos = {agent: self._info(agent, result.info) for agent in self._live}
        return {agent: self._seen.get(agent) for agent in self._live}, infos

    def _play(self, actions: ByAgent) -> Rows:
        """One step of the environment: a row for each who was there before and for each who has come."""
        before = self._live
        result = self._env.step(actions)
        left = self._follow(result)
        if result.done:
            self._live = []
        there = list(dict.fromkeys((*before, *self._live)))
        scores = _scores(result)
        ends = {agent: _ends(agent, result, agent in left) for agent in there}
        infos = {agent: self._info(agent, result.info) for agent in there}
        for agent in there:
            if scores.get(agent, 0.0) is None:
                infos[agent]["unscored"] = True
        return (
            {agent: self._seen.get(agent) for agent in there},
            {agent: scores.get(agent) or 0.0 for agent in there},
            {agent: terminated for agent, (terminated, _) in ends.items()},
            {agent: truncated for agent, (_, truncated) in ends.items()},
            infos,
        )

    def _follow(self, result: ResetResult[Any] | StepResult[Any]) -> set[str]:
        """Take in who must act, who is there and what they see. Returns who has left."""
        self._asked = [r.agent_id for r in result.requests if isinstance(r, NeedAction)]
        ends = {r.agent_id for r in result.requests if isinstance(r, EpisodeEnd) and r.agent_id is not None}
        left = ends.difference(self._asked)
        self._gone |= left
        told = (*result.observation, *self._asked, *_scores(result))
        present = told if self._inner is None else roster_of(self._inner).agents
        self._live = [a for a in dict.fromkeys((*self._live, *present)) if a not in self._gone]
        self._met.update(self._live)
        self._seen |= {agent: plain(one) for agent, one in result.observation.items()}
        if hasattr(self, "possible_agents"):
            self.possible_agents += [agent for agent in self._live if agent not in self.possible_agents]
        return left

    def _info(self, agent: str, info: dict[str, Any]) -> dict[str, Any]:
        own = info.get(agent)
        common = {key: value for key, value in info.items() if key not in self._met}
        return {**common, **own} if isinstance(own, Mapping) else common

    def _accepted(self, options: dict[str, Any] | None) -> dict[str, Any] | None:
        if not options:
            return options
        check = getattr(self._env, "check_reset", None) or getattr(self._env.aio, "check_reset", None)
        if check is None:
            return options
        accepted = {}
        for name, value in options.items():
            try:
                check(options={name: value})
                accepted[name] = value
            except UsageError as error:
                warnings.warn(f"option {name!r} is left out: {error.message}", stacklevel=4)
        return accepted


class _Parallel(_Export, ParallelEnv[str, Any, Any]):  # type: ignore[misc]  # PettingZoo ships no types
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[ByAgent, ByAgent]:
        observations, infos = self._begin(seed, options)
        self.agents = list(self._live)
        return observations, infos

    def step(self, actions: ByAgent) -> Rows:
        if self.agents and set(self._asked) != set(self.agents):
            asked = ", ".join(self._asked) or "nobody"
            raise UnsupportedError(f"not all agents of {self._env.id} act now: {asked}", "export it with as_aec_env")
        rows = self._play(actions)
        self.agents = list(self._live)
        return rows


class _Turns(_Export, AECEnv[str, Any, Any]):  # type: ignore[misc]  # PettingZoo ships no types
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        _, self.infos = self._begin(seed, options)
        self.agents = list(self._live)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None  # the base class keeps it over the end of an episode
        self._actions: ByAgent = {}
        self.agent_selection = self._first()

    def observe(self, agent: str) -> Any:
        return self._seen.get(agent)

    def step(self, action: Any) -> None:
        if not self.agents:
            raise ResetNeededError(f"nobody is left in {self._env.id}", "call reset()")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._actions[agent] = action
        waiting = [other for other in self._asked if other not in self._actions]
        if waiting:
            self._clear_rewards()
            self.agent_selection = waiting[0]
        else:
            self._move()

    def _move(self) -> None:
        actions, self._actions = self._actions, {}
        try:
            _, self.rewards, self.terminations, self.truncations, self.infos = self._play(actions)
        except EnvWeaveError:
            self.agent_selection = self._first()
            raise
        owed = {agent: earned for agent, earned in self._cumulative_rewards.items() if agent not in actions}
        self._cumulative_rewards = {agent: owed.get(agent, 0.0) + reward for agent, reward in self.rewards.items()}
        self.agents = list(self.rewards)
        if self._live:
            self.agent_selection = self._first()
        self._deads_step_first()

    def _first(self) -> str:
        if not self._asked:
            raise UnsupportedError(f"{self._env.id} waits for a tool, not for an agent", "PettingZoo has no tools")
        return self._asked[0]


def _observation_type(inner: Any, agent: str) -> Any:
    declared = None if inner is None else types_of(inner).observation
    if isinstance(declared, dict):  # observation_type = {"alice": Hand, "bob": Board}
        return declared.get(agent)
    if typing.get_origin(declared) in (dict, Mapping):  # def step(self, …) -> StepResult[dict[str, Hand]]
        return typing.get_args(declared)[1]
    return declared


def _ends(agent: str, result: StepResult[Any], left: bool) -> tuple[bool, bool]:
    """Terminated and truncated: the agent's own flags, else those of the whole episode."""
    terminated, truncated = _flag(result.terminated, agent), _flag(result.truncated, agent)
    if terminated or truncated:
        return terminated, truncated
    terminated, truncated = _flag(result.terminated, ALL), _flag(result.truncated, ALL)
    return terminated, truncated or (left and not terminated)


def _flag(flags: bool | Mapping[str, bool], agent: str) -> bool:
    return flags.get(agent, False) if isinstance(flags, Mapping) else flags and agent == ALL


def _scores(result: ResetResult[Any] | StepResult[Any]) -> Mapping[str, float | None]:
    return result.reward if isinstance(result.reward, Mapping) else {}

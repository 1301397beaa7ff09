"""Environments for several agents as PettingZoo environments.

    all agents act at the same time       as_parallel_env, as_aec_env
    some of them act, or one at a time    as_aec_env

The rules and the errors are those of the handle: an action that the environment refuses raises `InvalidActionError` and
changes nothing. What PettingZoo does not have is translated:

    observation    a dataclass or a model becomes a dict of its fields, without `done`, `reward` and `metadata`; other
                   values are unchanged. An agent without an observation in this step keeps its last one.
    reward         None ("not scored") becomes 0.0, and the agent's info has `unscored`. A reward for an agent that has
                   left is dropped.
    info           keys that are not agents are in the info of every agent
    leaving        an agent that leaves without a flag is truncated
    options        options that `reset` does not accept are dropped with a warning
    spaces         those of the environment, or else a `SchemaSpace` for actions and a `Dict` of them for typed
                   observations
"""

from __future__ import annotations

import typing
import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

from gymnasium.spaces import Space
from pettingzoo import AECEnv, ParallelEnv

from envweave.adapters.spaces import SchemaSpace, observation_space, plain
from envweave.core.env_types import types_of
from envweave.core.handle import EnvHandle
from envweave.errors import EnvWeaveError, ResetNeededError, UnsupportedError, UsageError
from envweave.multiagent.referee import ALL, has_agents, roster_of
from envweave.requests import EpisodeEnd, NeedAction
from envweave.results import ResetResult, StepResult

ByAgent: TypeAlias = dict[str, Any]
Rows: TypeAlias = tuple[ByAgent, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


def as_parallel_env(env: EnvHandle[Any]) -> ParallelEnv[str, Any, Any]:
    """Export an environment whose agents act at the same time. The export owns the handle.

    Raises `UsageError` for an environment for one agent or with turns.
    """
    _check(env)
    if _takes_turns(env.backend.env):
        raise UnsupportedError(f"the agents of {env.id} do not act at the same time", "export it with as_aec_env")
    return _ParallelExport(env)


def as_aec_env(env: EnvHandle[Any]) -> AECEnv[str, Any, Any]:
    """Export an environment for several agents. The export owns the handle. Raises `UsageError` for one agent.

    If several agents must act, each of them is selected in turn, and the environment steps after the last one. If it
    refuses an action, all of them are selected again.
    """
    _check(env)
    return _TurnBasedExport(env)


def _check(env: EnvHandle[Any]) -> None:
    if not isinstance(env, EnvHandle):
        raise UsageError(f"this is a {type(env).__name__}, not a handle", "pass what ew.make or ew.adapt gives")
    inner = env.backend.env
    if inner is not None and not has_agents(inner):
        raise _for_one_agent(env)


def _for_one_agent(env: EnvHandle[Any]) -> UsageError:
    return UnsupportedError(
        f"{env.id} is for one agent", "declare `possible_agents` or `agents: list[str]` in its class, if it has several"
    )


def _takes_turns(inner: Any) -> bool:
    return hasattr(type(inner), "to_act") or getattr(inner, "to_act", None) is not None


class _Export:
    """What both forms share: a handle, and what its results say about each agent."""

    metadata: dict[str, Any]
    possible_agents: list[str]

    def __init__(self, env: EnvHandle[Any]) -> None:
        self._env = env
        self._inner = env.backend.env
        """The environment itself, or None if it runs elsewhere."""
        declared = getattr(self._inner, "metadata", None) or {}
        self.metadata = {"is_parallelizable": not _takes_turns(self._inner), **declared, "name": env.id}
        self.render_mode = getattr(self._inner, "render_mode", None)
        self.agents: list[str] = []
        known = getattr(self._inner, "possible_agents", None) or getattr(self._inner, "agents", None)
        if known:  # as in PettingZoo, the list is missing if the agents are not known in advance
            self.possible_agents = list(known)
        self._live: list[str] = []
        self._known: set[str] = set()
        self._gone: set[str] = set()
        self._asked: list[str] = []
        self._observations: ByAgent = {}
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
            raise _for_one_agent(self._env)
        self._observations, self._known, self._gone, self._live = {}, set(), set(), []
        self._follow(result)
        infos = {agent: self._info(agent, result.info) for agent in self._live}
        return {agent: self._observations.get(agent) for agent in self._live}, infos

    def _play(self, actions: ByAgent) -> Rows:
        """Step the environment. Returns values for each agent that was in the episode before or has joined."""
        before = self._live
        result = self._env.step(actions)
        left = self._follow(result)
        if result.done:
            self._live = []
        present = list(dict.fromkeys((*before, *self._live)))
        scores = _scores(result)
        ends = {agent: _ends(agent, result, agent in left) for agent in present}
        infos = {agent: self._info(agent, result.info) for agent in present}
        for agent in present:
            if scores.get(agent, 0.0) is None:
                infos[agent]["unscored"] = True
        return (
            {agent: self._observations.get(agent) for agent in present},
            {agent: scores.get(agent) or 0.0 for agent in present},
            {agent: terminated for agent, (terminated, _) in ends.items()},
            {agent: truncated for agent, (_, truncated) in ends.items()},
            infos,
        )

    def _follow(self, result: ResetResult[Any] | StepResult[Any]) -> set[str]:
        """Update which agents are in the episode, must act, and see what. Returns those that have left."""
        self._asked = [r.agent_id for r in result.requests if isinstance(r, NeedAction)]
        ends = {r.agent_id for r in result.requests if isinstance(r, EpisodeEnd) and r.agent_id is not None}
        left = ends.difference(self._asked)
        self._gone |= left
        told = (*result.observation, *self._asked, *_scores(result))
        present = told if self._inner is None else roster_of(self._inner).agents
        self._live = [a for a in dict.fromkeys((*self._live, *present)) if a not in self._gone]
        self._known.update(self._live)
        self._observations |= {agent: plain(one) for agent, one in result.observation.items()}
        if hasattr(self, "possible_agents"):
            self.possible_agents += [agent for agent in self._live if agent not in self.possible_agents]
        return left

    def _info(self, agent: str, info: dict[str, Any]) -> dict[str, Any]:
        own = info.get(agent)
        common = {key: value for key, value in info.items() if key not in self._known}
        return {**common, **own} if isinstance(own, Mapping) else common

    def _accepted(self, options: dict[str, Any] | None) -> dict[str, Any] | None:
        if not options:
            return options
        check = self._env.backend.check_reset
        accepted = {}
        for name, value in options.items():
            try:
                check({"options": {name: value}})
                accepted[name] = value
            except UsageError as error:
                warnings.warn(f"option {name!r} is left out: {error.message}", stacklevel=4)
        return accepted


class _ParallelExport(_Export, ParallelEnv[str, Any, Any]):  # type: ignore[misc]  # PettingZoo ships no types
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[ByAgent, ByAgent]:
        observations, infos = self._begin(seed, options)
        self.agents = list(self._live)
        return observations, infos

    def step(self, actions: ByAgent) -> Rows:
        if self.agents and set(self._asked) != set(self.agents):
            asked = ", ".join(self._asked) or "no agent"
            raise UnsupportedError(f"not all agents of {self._env.id} act now: {asked}", "export it with as_aec_env")
        rows = self._play(actions)
        self.agents = list(self._live)
        return rows


class _TurnBasedExport(_Export, AECEnv[str, Any, Any]):  # type: ignore[misc]  # PettingZoo ships no types
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        _, self.infos = self._begin(seed, options)
        self.agents = list(self._live)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None  # the base class does not clear it at the end of an episode
        self._actions: ByAgent = {}
        self.agent_selection = self._next_agent()

    def observe(self, agent: str) -> Any:
        return self._observations.get(agent)

    def step(self, action: Any) -> None:
        if not self.agents:
            raise ResetNeededError(f"no agent is left in {self._env.id}", "call reset()")
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
            self._step_env()

    def _step_env(self) -> None:
        actions, self._actions = self._actions, {}
        try:
            _, self.rewards, self.terminations, self.truncations, self.infos = self._play(actions)
        except EnvWeaveError:
            self.agent_selection = self._next_agent()
            raise
        owed = {agent: earned for agent, earned in self._cumulative_rewards.items() if agent not in actions}
        self._cumulative_rewards = {agent: owed.get(agent, 0.0) + reward for agent, reward in self.rewards.items()}
        self.agents = list(self.rewards)
        if self._live:
            self.agent_selection = self._next_agent()
        self._deads_step_first()

    def _next_agent(self) -> str:
        if not self._asked:
            raise UnsupportedError(f"{self._env.id} waits for a tool and not for an agent", "PettingZoo has no tools")
        return self._asked[0]


def _observation_type(inner: Any, agent: str) -> Any:
    declared = None if inner is None else types_of(inner).observation
    if isinstance(declared, dict):  # observation_type = {"alice": Hand, "bob": Board}
        return declared.get(agent)
    if typing.get_origin(declared) in (dict, Mapping):  # def step(self, …) -> StepResult[dict[str, Hand]]
        return typing.get_args(declared)[1]
    return declared


def _ends(agent: str, result: StepResult[Any], left: bool) -> tuple[bool, bool]:
    """Terminated and truncated, by the agent's own flags or else by those of the whole episode."""
    terminated, truncated = _flag(result.terminated, agent), _flag(result.truncated, agent)
    if terminated or truncated:
        return terminated, truncated
    terminated, truncated = _flag(result.terminated, ALL), _flag(result.truncated, ALL)
    return terminated, truncated or (left and not terminated)


def _flag(flags: bool | Mapping[str, bool], agent: str) -> bool:
    return flags.get(agent, False) if isinstance(flags, Mapping) else flags and agent == ALL


def _scores(result: ResetResult[Any] | StepResult[Any]) -> Mapping[str, float | None]:
    return result.reward if isinstance(result.reward, Mapping) else {}

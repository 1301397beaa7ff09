"""The rules of an environment for several agents: who is in the episode, who must act, who has left."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from envweave.core.actions import ANYTHING, ActionRule
from envweave.core.referee import LATE, RUNNING, Referee
from envweave.core.return_values import StepOutcome, read_flag, read_reward, read_step
from envweave.errors import BadResultError, EnvWeaveError, InvalidActionError, UsageError, WrongAgentError
from envweave.requests import EndReason, EpisodeEnd, NeedAction, Request
from envweave.results import ResetResult, StepResult

ALL = "__all__"


class Roster(NamedTuple):
    """The agents that an environment names."""

    agents: tuple[str, ...]
    """Those that are in the episode; none before the first reset of some environments."""
    to_act: tuple[str, ...] | None
    """Those that must act next; None means all of them."""
    possible_agents: tuple[str, ...] = ()
    """Those that may ever be there, if the environment says so."""


def roster_of(env: Any) -> Roster:
    """Read `agents`, `to_act` and `possible_agents`. Raises `BadResultError` if `agents` is not a list."""
    agents = getattr(env, "agents", None) or ()
    if isinstance(agents, str):
        raise BadResultError(f"`agents` is {agents!r}, not a list", f"use [{agents!r}]")
    to_act = getattr(env, "to_act", None)
    if isinstance(to_act, str):
        to_act = (to_act,)
    possible = tuple(getattr(env, "possible_agents", None) or ())
    return Roster(tuple(agents), None if to_act is None else tuple(to_act), possible)


def has_agents(env: Any) -> bool:
    """True for an environment for several agents: one that has `agents` or `possible_agents`, or declares one of them.

    An annotation (`agents: list[str]`) or a property in the class is a declaration. `agents` that only `reset` sets are
    not seen here, because this is asked before the first reset.
    """
    if getattr(env, "agents", None) is not None or getattr(env, "possible_agents", None) is not None:
        return True
    return any(_declares(cls, name) for cls in type(env).__mro__ for name in ("agents", "possible_agents"))


def _declares(cls: type, name: str) -> bool:
    return isinstance(cls.__dict__.get(name), property) or name in inspect.get_annotations(cls)


class TeamReferee(Referee):
    """Accepts a dict with an action for each agent that was asked and for no other; results are dicts by agent.

    Agents may join and leave during an episode.
    """

    multi_agent: ClassVar[bool] = True
    saved: ClassVar[tuple[str, ...]] = (*Referee.saved, "live", "gone")

    def __init__(
        self, env_id: str, rule_for: Callable[[str], ActionRule], roster: Callable[[], Roster], **options: Any
    ) -> None:
        super().__init__(env_id, ANYTHING, **options)
        self.live: tuple[str, ...] = ()
        self.gone: frozenset[str] = frozenset()
        """Agents that have left this episode; the environment may still list them in `agents`."""
        self._rule_for = rule_for
        self._roster = roster
        self._rules: dict[str, ActionRule] = {}
        self._asks: dict[str, NeedAction] = {}

    def admit(self, actions: Any) -> dict[str, Any]:
        if self.phase is not RUNNING:
            self._refuse()
        if self.due is not None and self.late():
            return LATE  # type: ignore[no-any-return]
        asked = [request.agent_id for request in self.pending if isinstance(request, NeedAction)]
        if not isinstance(actions, Mapping):
            raise InvalidActionError(f"actions are a {type(actions).__name__}, not a dict by agent", _example(asked))
        for agent in actions:
            if agent not in asked:
                raise WrongAgentError(f"agent {agent!r} is not to act now", f"now: {', '.join(asked)}")
        return {agent: self._checked(agent, actions) for agent in asked}

    def _checked(self, agent: str, actions: Mapping[str, Any]) -> Any:
        if agent not in actions:
            raise WrongAgentError(f"no action for agent {agent!r}", _example([agent]))
        try:
            return self._rule(agent).check(actions[agent])
        except InvalidActionError as error:
            raise InvalidActionError(f"{agent}: {error.message}", error.hint) from None

    def open(self, raw: Any, episode_id: str) -> ResetResult[Any]:
        self.live, self.gone = self._roster().agents, frozenset()
        if not self.live:
            raise BadResultError("reset left no agents", "fill `agents` in reset")
        misnamed = [agent for agent in self.live if not isinstance(agent, str) or agent == ALL]
        if misnamed:
            raise BadResultError(f"an agent cannot be named {misnamed[0]!r}", "agents are named by strings")
        if len(set(self.live)) < len(self.live):
            raise BadResultError(f"an agent is twice in {list(self.live)}", "name each agent once")
        self._rules, self._asks = {}, {}  # an agent may have other actions in another episode
        result = super().open(raw, episode_id)
        if not isinstance(result.observation, Mapping):
            raise BadResultError(_not_by_agent("observation", result.observation), _BY_AGENT)
        return result

    def conclude(self, raw: Any) -> StepResult[Any, Any, Any]:
        self.step_count += 1
        return self._decide(read_step(raw))

    def resume(self, raw: Any) -> StepResult[Any, Any, Any]:
        return self._decide(StepOutcome(self.last_obs, {}, {}, {}, {}, ()) if raw is None else read_step(raw))

    def _decide(self, outcome: StepOutcome) -> StepResult[Any, Any, Any]:
        if not isinstance(outcome.observation, Mapping):
            raise BadResultError(_not_by_agent("observation", outcome.observation), _BY_AGENT)
        reward = _rewards(outcome.reward)
        terminated, truncated = _flags(outcome.terminated, "terminated"), _flags(outcome.truncated, "truncated")
        before, roster = self.live, self._roster().agents
        told = {r.agent_id for r in outcome.requests if isinstance(r, EpisodeEnd)}
        ended = {agent for agent in before if terminated.get(agent) or truncated.get(agent) or agent in told}
        self.gone |= ended | (frozenset(before) - frozenset(roster))
        self.live = tuple(agent for agent in roster if agent not in self.gone)
        terminated.setdefault(ALL, False)
        truncated.setdefault(ALL, None in told or self.step_count >= self._limit)
        reason = self._verdict(terminated, truncated, ended)
        if reason is not None and not (terminated[ALL] or truncated[ALL]):
            (truncated if reason == "truncated" else terminated)[ALL] = True
        self.last_obs = outcome.observation
        info = outcome.info
        if reason is not None:
            info = self.with_task_id(info)
            requests = self._end(reason, info, outcome.requests)
        else:
            left = [agent for agent in before if agent in self.gone]
            departures = [self._departure(agent, terminated, truncated, outcome.info) for agent in left]
            known = [r for r in outcome.requests if not isinstance(r, EpisodeEnd) or r.agent_id in before]
            requests = self._ask((*(end for end in departures if end.agent_id not in told), *known))
        return StepResult[Any, Any, Any](outcome.observation, reward, terminated, truncated, info, requests)

    def _verdict(self, terminated: dict[str, bool], truncated: dict[str, bool], ended: set[str]) -> EndReason | None:
        """Why the whole episode is over; None if it is not."""
        if terminated[ALL]:
            return "terminated"
        if truncated[ALL]:
            return "truncated"
        if self.live:
            return None
        if any(terminated.get(agent) for agent in ended):
            return "terminated"
        return "truncated" if ended else "agent_left"

    def _departure(
        self, agent: str, terminated: dict[str, bool], truncated: dict[str, bool], info: dict[str, Any]
    ) -> EpisodeEnd:
        reason: EndReason = "agent_left"
        if terminated.get(agent):
            reason = "terminated"
        elif truncated.get(agent):
            reason = "truncated"
        own = info.get(agent)
        return EpisodeEnd(reason=reason, agent_id=agent, final_info=own if isinstance(own, dict) else {})

    def refuse_action(self, error: UsageError) -> StepResult[Any, Any, Any]:
        return self._by_agent(super().refuse_action(error), over=False)

    def abort(self, error: EnvWeaveError, reason: EndReason = "infra_error") -> StepResult[Any, Any, Any]:
        return self._by_agent(super().abort(error, reason), over=True)

    def unscored(self, error: EnvWeaveError, *, over: bool) -> StepResult[Any, Any, Any]:
        return self._by_agent(super().unscored(error, over=over), over=over)

    def expire(self) -> StepResult[Any, Any, Any]:
        return self._by_agent(super().expire(), over=True)

    def _by_agent(self, result: StepResult[Any, Any, Any], *, over: bool) -> StepResult[Any, Any, Any]:
        result.reward = dict.fromkeys(self.live, None)
        result.terminated = dict.fromkeys((*self.live, ALL), False)
        result.truncated = dict.fromkeys((*self.live, ALL), over)
        return result

    # Who must act.

    def _needs(self) -> tuple[NeedAction, ...]:
        to_act = self._roster().to_act
        acting = self.live if to_act is None else tuple(agent for agent in to_act if agent in self.live)
        if not acting:
            raise BadResultError(
                f"no agent is to act, but the episode goes on with {', '.join(self.live)}",
                "name an agent in `to_act`, or end the episode",
            )
        return tuple(self._need_of(agent) for agent in acting)

    def _stamp(self, request: Request) -> Request:
        if isinstance(request, NeedAction) and request.agent_id not in self.live:
            raise BadResultError(f"need_action for {request.agent_id!r}, who is not there", f"there are: {self.live}")
        return super()._stamp(request)

    def _need_of(self, agent: str) -> NeedAction:
        if agent not in self._asks:
            schema = self._rule(agent).schema
            self._asks[agent] = NeedAction(
                env_id=self.env_id, agent_id=agent, action_schema=schema, deadline=self._deadline
            )
        return self._asks[agent]

    def _rule(self, agent: str) -> ActionRule:
        if agent not in self._rules:
            self._rules[agent] = self._rule_for(agent)
        return self._rules[agent]

    def schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        """The schema of an agent's actions; without an agent, that of the first one known.

        None if the environment does not say, or not yet: before the first reset its agents may be unknown. Never
        raises, because a server describes an environment before anyone has reset it.
        """
        try:
            roster = self._roster()
            known = iter((*roster.agents, *roster.possible_agents))
            return self._rule(next(known, "") if agent_id is None else agent_id).schema
        except Exception:  # of the author's `agents` or `action_space`
            return None


_BY_AGENT = "return dicts keyed by agent, e.g. {'alice': …, 'bob': …}"


def _not_by_agent(what: str, value: Any) -> str:
    return f"{what} is a {type(value).__name__}, not a dict by agent"


def _rewards(reward: Any) -> dict[str, float | None]:
    if reward is None:
        return {}
    if not isinstance(reward, Mapping):
        raise BadResultError(_not_by_agent("reward", reward), _BY_AGENT)
    return {agent: read_reward(value) for agent, value in reward.items()}


def _flags(flags: Any, name: str) -> dict[str, bool]:
    if isinstance(flags, Mapping):
        return {agent: read_flag(value, f"{name}[{agent!r}]") for agent, value in flags.items()}
    return {ALL: read_flag(flags, name)}


def _example(agents: list[str]) -> str:
    return "pass {" + ", ".join(f"{agent!r}: …" for agent in agents) + "}"

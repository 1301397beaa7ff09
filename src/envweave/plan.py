"""From a spec to a running environment: call the factory, look at what it made, choose the rules."""

from __future__ import annotations

import inspect
import time
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from envweave.chat import Chat, ChatObservation, reply_rule
from envweave.core.actions import ANYTHING, ActionRule, rule_for_space, rule_for_type
from envweave.core.env_types import is_bare_base, types_of
from envweave.core.environment import ActT, EnvironmentBase, HasAgents, HasStep, ObsT
from envweave.core.handle import EnvHandle
from envweave.core.local import AsyncLocalBackend, LocalBackend, open_local
from envweave.core.lookup import load
from envweave.core.openenv import ToolOpenEnv, from_openenv, openenv_base
from envweave.core.referee import Referee
from envweave.core.spec import EnvSpec
from envweave.core.tool_actions import rule_for_tools, with_tool_results
from envweave.errors import BadResultError, EnvError, EnvWeaveError, UnsupportedError, UsageError, describe
from envweave.multiagent.referee import TeamReferee, has_agents, roster_of
from envweave.multiagent.turns import TurnBased, is_aec


@dataclass(frozen=True)
class EnvPlan:
    """All that is needed to build an environment, anywhere: it pickles if its spec and arguments do.

    Nothing is imported or called before `check` or `build`.
    """

    spec: EnvSpec
    arguments: dict[str, Any] = field(default_factory=dict)
    """For the factory; they take precedence over those of the spec."""
    autoreset: bool = False
    clock: Callable[[], float] = time.monotonic
    chat: Chat | None = None
    """If set, observations are messages and actions are replies of a model."""

    def check(self) -> EnvPlan:
        """Raise `UsageError` if the factory does not take the arguments; return the plan."""
        _check_arguments(self.spec.id, self.spec.loaded(), {**self.spec.kwargs, **self.arguments})
        return self

    def build(self) -> Any:
        """A new environment. What the factory raises is an `EnvError`."""
        factory = self.spec.loaded()
        try:
            env = factory(**{**self.spec.kwargs, **self.arguments})
        except EnvWeaveError:
            raise
        except (Exception, SystemExit) as error:
            raise EnvError(f"the factory of {self.spec.id!r} raised {describe(error)}") from error
        return self.prepared(env, f"the factory of {self.spec.id!r} returned")

    def open(self, id: str, env: Any = None) -> LocalBackend | AsyncLocalBackend:
        """A backend on a new environment, or on one that `build` has made, under an instance ID."""
        return open_local(self, id, env)

    def prepared(self, env: Any, source: str) -> Any:
        """The environment, wrapped if it needs to be. Raises `BadResultError`; `source` begins the message."""
        env = prepared(env, source, _loaded(self.spec.action_type))
        if self.chat is None:
            return env
        from envweave.chat.environment import ChatEnvironment, as_chat  # loaded if it is asked for

        if isinstance(env, ChatEnvironment):  # a fork
            return env
        return as_chat(env, self.chat, partial(_rule_of, self.spec), multi_agent=has_agents(env))

    def played(self, env: Any) -> Any:
        """The environment itself, without what talks to a model."""
        return env if self.chat is None else env.env

    def rules(self, env: Any, id: str) -> Referee:
        """The referee for an environment, under an instance ID."""
        spec = self.spec
        options: dict[str, Any] = {
            "deadline": getattr(env, "deadline", None) if spec.deadline is None else spec.deadline,
            "max_episode_steps": spec.max_episode_steps,
            "clock": self.clock,
        }
        rule_for = partial(_rule, env, spec) if self.chat is None else reply_rule
        if has_agents(self.played(env)):
            return TeamReferee(id, rule_for, partial(roster_of, env), **options)
        return Referee(id, rule_for(), **options)

    def observation_type(self, env: Any) -> Any:
        """The declared type of the observations, for several agents that of one agent; None if there is none."""
        if self.chat is not None:
            return ChatObservation
        declared = _loaded(self.spec.observation_type) or types_of(env).observation
        if isinstance(env, ToolOpenEnv):
            return with_tool_results(env.tool_actions, declared)
        if has_agents(env) and typing.get_origin(declared) in (dict, Mapping):  # Environment[…, dict[str, Hand]]
            return typing.get_args(declared)[1]
        return declared


@dataclass(frozen=True)
class InstancePlan(EnvPlan):
    """The plan of an environment that exists already. It can be built once."""

    instances: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, env: Any, spec: EnvSpec, **options: Any) -> InstancePlan:
        """Raises `BadResultError` for an object that is not an environment."""
        plan = cls(spec, **options)
        plan.instances.append(plan.prepared(env, "this is"))
        return plan

    def check(self) -> EnvPlan:
        return self

    def build(self) -> Any:
        if not self.instances:
            raise UnsupportedError(f"there is only one {self.spec.id}", "pass a class or a factory")
        return self.instances.pop()


@typing.overload
def adapt(
    env: HasAgents,
    *,
    id: str | None = ...,
    autoreset: bool = ...,
    deadline: float | None = ...,
    max_episode_steps: int | None = ...,
    chat: Chat | bool | None = ...,
) -> EnvHandle[Any, Any, Any, Any]: ...


@typing.overload
def adapt(
    env: EnvironmentBase[ActT, ObsT],
    *,
    id: str | None = ...,
    autoreset: bool = ...,
    deadline: float | None = ...,
    max_episode_steps: int | None = ...,
    chat: None = ...,
) -> EnvHandle[ActT, ObsT]: ...


@typing.overload
def adapt(
    env: HasStep,
    *,
    id: str | None = ...,
    autoreset: bool = ...,
    deadline: float | None = ...,
    max_episode_steps: int | None = ...,
    chat: Chat | bool | None = ...,
) -> EnvHandle[Any, Any, Any, Any]: ...


def adapt(
    env: Any,
    *,
    id: str | None = None,
    autoreset: bool = False,
    deadline: float | None = None,
    max_episode_steps: int | None = None,
    chat: Chat | bool | None = None,
) -> EnvHandle[Any, Any, Any, Any]:
    """A handle on an environment you have made yourself: anything with `reset` and `step`.

    The handle owns it: closing the handle closes it.
    """
    name = id or _name(env)
    spec = EnvSpec(id=name, deadline=deadline, max_episode_steps=max_episode_steps)
    plan = InstancePlan.of(env, spec, autoreset=autoreset, chat=Chat.of(chat))
    return EnvHandle(open_local(plan, name), spec)


def _name(env: Any) -> str:
    """The ID by which Gymnasium made the environment, else the name of its class."""
    made_as = getattr(getattr(env, "spec", None), "id", None)
    return made_as if isinstance(made_as, str) else type(env).__name__


def prepared(env: Any, source: str, action_type: Any = None) -> Any:
    """The environment, wrapped if it is OpenEnv's or PettingZoo's turn-based kind.

    `action_type` is what it is declared to take, where its class does not say that. Raises `BadResultError` for an
    object that is not an environment; `source` begins the message.
    """
    if isinstance(env, type):
        raise BadResultError(f"{source} the class {env.__name__}, not an environment", "call it, or use ew.make")
    missing = [name for name in ("reset", "step") if not callable(getattr(env, name, None))]
    if missing:
        kind = type(env).__name__
        raise BadResultError(f"{source} a {kind}, which has no `{missing[0]}`", "an environment has reset and step")
    base = openenv_base(env)
    if base is not None:
        return from_openenv(env, base, action_type)
    return TurnBased(env) if is_aec(env) else env


def _check_arguments(id: str, factory: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """A wrong argument is the caller's mistake; a TypeError from inside the factory would be the author's."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "nothing"
        raise UsageError(f"{id!r} cannot be made like this: {error}", f"it takes: {takes}") from None


def _loaded(type_: Any) -> Any:
    return load(type_) if isinstance(type_, str) else type_


def _rule_of(spec: EnvSpec, env: Any, agent: str | None) -> ActionRule:
    return _rule(env, spec, agent)


def _rule(env: Any, spec: EnvSpec, agent: str | None = None) -> ActionRule:
    """How an action looks: by the spec, by a Gymnasium or PettingZoo space, by the types of the class."""
    declared = _loaded(spec.action_type)
    if isinstance(env, ToolOpenEnv):
        return _tools_rule(env.tool_actions, env.action_type if is_bare_base(declared) else declared or env.action_type)
    if declared is None:
        space = getattr(env, "action_space", None)
        if callable(space) and agent is not None:
            space = space(agent)
        if callable(getattr(space, "contains", None)):
            return rule_for_space(space)
        declared = types_of(env).action
    if agent is not None and typing.get_origin(declared) is dict:  # step(self, actions: dict[str, Move])
        declared = typing.get_args(declared)[1]
    if agent is not None and isinstance(declared, dict):  # action_type = {"alice": Move, "bob": Bid}
        declared = declared.get(agent)
    return ANYTHING if declared in (None, Any, object) else _typed_rule(declared)


_typed_rule = lru_cache(maxsize=256)(rule_for_type)
_tools_rule = lru_cache(maxsize=256)(rule_for_tools)

"""From a spec to a running environment: call the factory, see what it made, choose the rules."""

from __future__ import annotations

import inspect
import time
import typing
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from envweave.core.actions import ANYTHING, ActionRule, rule_for_space, rule_for_type
from envweave.core.flows import Blueprint
from envweave.core.handle import EnvHandle
from envweave.core.lookup import load
from envweave.core.openenv import from_openenv, openenv_base
from envweave.core.referee import Referee
from envweave.core.spec import EnvSpec
from envweave.core.start import start
from envweave.core.typed import types_of
from envweave.errors import BadResultError, EnvError, EnvWeaveError, UnsupportedError, UsageError, describe
from envweave.multiagent.referee import TeamReferee, has_agents, roster_of
from envweave.multiagent.turns import TurnBased, is_aec


def blueprint(
    spec: EnvSpec,
    kwargs: dict[str, Any],
    *,
    autoreset: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Blueprint:
    """The plan of an environment; `kwargs` go to the factory, over those of the spec."""
    factory = spec.loaded()
    arguments = {**spec.kwargs, **kwargs}
    _check_arguments(spec.id, factory, arguments)

    def build() -> Any:
        try:
            env = factory(**arguments)
        except EnvWeaveError:
            raise
        except (Exception, SystemExit) as error:
            raise EnvError(f"the factory of {spec.id!r} raised {describe(error)}") from error
        return prepared(env, f"the factory of {spec.id!r} returned")

    return Blueprint(build, partial(_rules, spec=spec, clock=clock), autoreset)


def adapt(
    env: Any,
    *,
    id: str | None = None,
    autoreset: bool = False,
    deadline: float | None = None,
    max_episode_steps: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> EnvHandle[Any]:
    """A handle on an environment you have made yourself: anything with `reset` and `step`.

    The handle owns it: closing the handle closes it.
    """
    name = id or type(env).__name__
    spec = EnvSpec(id=name, deadline=deadline, max_episode_steps=max_episode_steps)
    instances = [prepared(env, "this is")]

    def build() -> Any:
        if not instances:
            raise UnsupportedError(f"there is only one {name}", "register it with a factory to fork it")
        return instances.pop()

    return start(Blueprint(build, partial(_rules, spec=spec, clock=clock), autoreset), name)


def prepared(env: Any, whence: str) -> Any:
    """The environment; PettingZoo's turn-based ones and OpenEnv's wrapped. Raises `BadResultError` for what is none."""
    if isinstance(env, type):
        raise BadResultError(f"{whence} the class {env.__name__}, not an environment", "call it")
    missing = [name for name in ("reset", "step") if not callable(getattr(env, name, None))]
    if missing:
        kind = type(env).__name__
        raise BadResultError(f"{whence} a {kind}, which has no `{missing[0]}`", "an environment has reset and step")
    base = openenv_base(env)
    if base is not None:
        return from_openenv(env, base)
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


def _rules(env: Any, id: str, *, spec: EnvSpec, clock: Callable[[], float]) -> Referee:
    options: dict[str, Any] = {
        "deadline": getattr(env, "deadline", None) if spec.deadline is None else spec.deadline,
        "max_episode_steps": spec.max_episode_steps,
        "clock": clock,
    }
    if has_agents(env):
        return TeamReferee(id, partial(_rule, env, spec), partial(roster_of, env), **options)
    return Referee(id, _rule(env, spec), **options)


def _rule(env: Any, spec: EnvSpec, agent: str | None = None) -> ActionRule:
    """How an action looks: by the spec, by a Gymnasium or PettingZoo space, by the types of the class."""
    declared = load(spec.action_type) if isinstance(spec.action_type, str) else spec.action_type
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

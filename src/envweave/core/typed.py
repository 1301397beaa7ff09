"""Which types an environment works with, read off its class."""

from __future__ import annotations

import inspect
import typing
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from envweave.results import ResetResult, StepResult


class EnvTypes(NamedTuple):
    """None where the class does not say."""

    action: Any = None
    observation: Any = None


def types_of(env: Any) -> EnvTypes:
    """Look at `action_type`/`observation_type`, then `Environment[Move, Position]`, then the hints of `step`.

    OpenEnv's async environments have theirs at `step_async`.
    """
    cls = env if isinstance(env, type) else type(env)
    by_base = _from_bases(cls)
    by_hint = _from_hints(getattr(cls, "step", None))
    if by_hint == EnvTypes():
        by_hint = _from_hints(getattr(cls, "step_async", None))
    action = getattr(env, "action_type", None) or by_base.action or by_hint.action
    observation = getattr(env, "observation_type", None) or by_base.observation or by_hint.observation
    return EnvTypes(action, observation)


@lru_cache(maxsize=1024)
def _from_bases(cls: type) -> EnvTypes:
    for base in cls.__mro__:
        for generic in base.__dict__.get("__orig_bases__", ()):
            origin = typing.get_origin(generic)
            arguments = typing.get_args(generic)
            if getattr(origin, "__name__", "").endswith("Environment") and len(arguments) >= 2:
                return EnvTypes(_useful(arguments[0]), _useful(arguments[1]))
    return EnvTypes()


@lru_cache(maxsize=1024)
def _from_hints(step: Any) -> EnvTypes:
    try:
        hints = typing.get_type_hints(step, include_extras=True) if step is not None else {}
    except (NameError, TypeError, AttributeError):
        return EnvTypes()  # a forward reference to a name that only the author's function can see
    returned = hints.pop("return", None)
    if typing.get_origin(returned) in (StepResult, ResetResult):
        returned = typing.get_args(returned)[0]
    action = hints.get(_first_parameter(step))
    return EnvTypes(_useful(action), _useful(returned) if typing.get_origin(returned) is not tuple else None)


def _first_parameter(step: Any) -> str:
    """What `step` calls its action; another parameter may be the first that has a hint."""
    try:
        names = inspect.signature(step).parameters
    except (TypeError, ValueError):
        return ""
    return next((name for name in names if name != "self"), "")


def _useful(type_: Any) -> Any:
    vague = type_ in (None, Any, object, dict, tuple, StepResult, ResetResult, type(None)) or isinstance(type_, TypeVar)
    return None if vague else type_

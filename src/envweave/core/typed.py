"""Which types an environment works with, read off its class."""

from __future__ import annotations

import typing
from typing import Any, NamedTuple, TypeVar

from envweave.results import ResetResult, StepResult


class EnvTypes(NamedTuple):
    """None where the class does not say."""

    action: Any = None
    observation: Any = None


def types_of(env: Any) -> EnvTypes:
    """Look at `action_type`/`observation_type`, then `Environment[Move, Position]`, then the hints of `step`."""
    cls = env if isinstance(env, type) else type(env)
    by_base = _from_bases(cls)
    by_hint = _from_hints(cls)
    action = getattr(env, "action_type", None) or by_base.action or by_hint.action
    observation = getattr(env, "observation_type", None) or by_base.observation or by_hint.observation
    return EnvTypes(action, observation)


def _from_bases(cls: type) -> EnvTypes:
    for base in cls.__mro__:
        for generic in base.__dict__.get("__orig_bases__", ()):
            origin = typing.get_origin(generic)
            arguments = typing.get_args(generic)
            if getattr(origin, "__name__", "").endswith("Environment") and len(arguments) >= 2:
                return EnvTypes(_useful(arguments[0]), _useful(arguments[1]))
    return EnvTypes()


def _from_hints(cls: type) -> EnvTypes:
    step = getattr(cls, "step", None)
    try:
        hints = typing.get_type_hints(step, include_extras=True) if step is not None else {}
    except (NameError, TypeError, AttributeError):
        return EnvTypes()  # a forward reference to a name that only the author's function can see
    returned = hints.pop("return", None)
    if typing.get_origin(returned) in (StepResult, ResetResult):
        returned = typing.get_args(returned)[0]
    action = next(iter(hints.values()), None)
    return EnvTypes(_useful(action), _useful(returned) if typing.get_origin(returned) is not tuple else None)


def _useful(type_: Any) -> Any:
    vague = type_ in (None, Any, object, dict, tuple, StepResult, ResetResult, type(None)) or isinstance(type_, TypeVar)
    return None if vague else type_

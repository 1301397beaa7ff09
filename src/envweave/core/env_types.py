"""The types of actions and observations that the class of an environment declares."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from envweave.core.environment import DefaultState
from envweave.results import ResetResult, StepResult
from envweave.types import Action, Observation, State

_OPENENV_PACKAGES = ("openenv", "openenv_core")


class EnvTypes(NamedTuple):
    """None if the class does not say."""

    action: Any = None
    observation: Any = None
    state: Any = None


def types_of(env: Any) -> EnvTypes:
    """Look at `action_type`/`observation_type`, then `Environment[Move, Position]`, then the hints of `step`.

    OpenEnv's async environments have theirs at `step_async`; those with MCP tools have that of their own actions at
    `_step_impl`, and observations of several types. A bare base class (`Action`, `Observation`) declares nothing: an
    environment that is annotated with it works with subclasses.
    """
    cls = env if isinstance(env, type) else type(env)
    by_base = _from_bases(cls)
    by_hint = _from_hints(getattr(cls, "step", None))
    if by_hint == EnvTypes():
        by_hint = _from_hints(getattr(cls, "step_async", None))
    if openenv_class(cls, "MCPEnvironment") is not None:
        by_hint = EnvTypes(by_hint.action or _from_hints(getattr(cls, "_step_impl", None)).action)
    action = _attribute(env, "action_type") or by_base.action or by_hint.action
    observation = _attribute(env, "observation_type") or by_base.observation or by_hint.observation
    return EnvTypes(action, observation, _attribute(env, "state_type") or _state_type(cls))


def is_bare_base(type_: Any) -> bool:
    """True for `Action`, `Observation` and `State` themselves, ours and OpenEnv's; False for their subclasses."""
    if type_ in (Action, Observation, State):
        return True
    return is_openenv(type_, "Action", "Observation", "State")


def is_openenv(type_: Any, *names: str) -> bool:
    """Whether a type is a class of OpenEnv's with one of these names."""
    is_named_so = getattr(type_, "__name__", "") in names
    return is_named_so and str(getattr(type_, "__module__", "")).partition(".")[0] in _OPENENV_PACKAGES


def openenv_class(cls: type, name: str) -> type | None:
    """The class of OpenEnv's with this name that another derives from, or is; None if there is none."""
    return next((base for base in cls.__mro__ if is_openenv(base, name)), None)


def _attribute(env: Any, name: str) -> Any:
    declared = getattr(env, name, None)
    return None if is_bare_base(declared) else declared


@lru_cache(maxsize=1024)
def _from_bases(cls: type) -> EnvTypes:
    found = _environment_arguments(cls, {})
    return EnvTypes() if found is None else EnvTypes(_useful(found[0]), _useful(found[1]))


def _environment_arguments(type_: Any, values: Mapping[Any, Any]) -> tuple[Any, ...] | None:
    """The arguments of `Environment[…]` among the bases, also of a generic class in between."""
    origin = typing.get_origin(type_) or type_
    arguments = tuple(_with_values(each, values) for each in typing.get_args(type_))
    if getattr(origin, "__name__", "").endswith("Environment") and len(arguments) >= 2:
        return arguments
    parameters = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
    for base in getattr(origin, "__dict__", {}).get("__orig_bases__", getattr(origin, "__bases__", ())):
        found = _environment_arguments(base, parameters)
        if found is not None:
            return found
    return None


def _with_values(type_: Any, values: Mapping[Any, Any]) -> Any:
    """The type with type variables replaced; one that has no value stays."""
    if isinstance(type_, TypeVar):
        return values.get(type_, type_)
    variables = getattr(type_, "__parameters__", ())
    return type_[tuple(values.get(each, each) for each in variables)] if variables and values else type_


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


def _state_type(cls: type) -> Any:
    return _useful(declared_state(cls))


@lru_cache(maxsize=1024)
def declared_state(cls: type) -> Any:
    """What `state`, a property, a method or an attribute, is declared to be; None if the class does not say."""
    member = getattr(cls, "state", None)
    if isinstance(member, DefaultState):
        return None
    member = getattr(member, "fget", None) or member
    try:
        if callable(member):
            return typing.get_type_hints(member).get("return")
        return typing.get_type_hints(cls).get("state")
    except (NameError, TypeError, AttributeError):
        return None


def _first_parameter(step: Any) -> str:
    """What `step` calls its action; another parameter may be the first that has a hint."""
    try:
        names = inspect.signature(step).parameters
    except (TypeError, ValueError):
        return ""
    return next((name for name in names if name != "self"), "")


def _useful(type_: Any) -> Any:
    """The type, or None if it does not say what a value looks like."""
    vague = type_ in (None, Any, object, dict, tuple, StepResult, ResetResult, type(None)) or isinstance(type_, TypeVar)
    by_agent = typing.get_args(type_)[1:] if typing.get_origin(type_) in (dict, Mapping) else ()
    return None if vague or is_bare_base(type_) or any(map(is_bare_base, by_agent)) else type_


def made_by(factory: Callable[..., Any]) -> type | None:
    """The class that a factory makes, where it can be told without calling it."""
    if isinstance(factory, type):
        return factory
    returned = _returned_by(factory)
    return returned if isinstance(returned, type) and hasattr(returned, "step") else None


def types_made_by(factory: Callable[..., Any]) -> EnvTypes:
    """The types of the environments that a class or a factory makes, where they can be told without calling it."""
    made = made_by(factory)
    if made is not None:
        return types_of(made)
    found = _environment_arguments(_returned_by(factory), {})  # -> Environment[Move, Position]
    return EnvTypes() if found is None else EnvTypes(_useful(found[0]), _useful(found[1]))


def _returned_by(factory: Callable[..., Any]) -> Any:
    while isinstance(factory, partial):
        factory = factory.func
    try:
        return factory if isinstance(factory, type) else typing.get_type_hints(factory).get("return")
    except (NameError, TypeError, AttributeError):
        return None

"""Data to the types of a client, and actions to data: what the hooks do if nobody overrides them."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from envweave.client.settings import sendable
from envweave.errors import InvalidActionError, ProtocolError


class ClientTypes(NamedTuple):
    """None where a client has no type: then data stays data."""

    action: Any = None
    observation: Any = None
    state: Any = None


def types_of(client: Any) -> ClientTypes:
    """The arguments in `EnvClient[Action, Observation, State]`, of the instance or of its class."""
    generics = [getattr(client, "__orig_class__", None)]
    for base in type(client).__mro__:
        generics += base.__dict__.get("__orig_bases__", ())
    for generic in generics:
        arguments = typing.get_args(generic)
        if getattr(typing.get_origin(generic), "__name__", "").endswith("EnvClient") and len(arguments) == 3:
            return ClientTypes(*(_useful(argument) for argument in arguments))
    return ClientTypes()


def _useful(type_: Any) -> Any:
    vague = type_ in (Any, object, dict, None, type(None)) or isinstance(type_, TypeVar)
    return None if vague else type_


def action_writer(type_: Any) -> Callable[[Any], Any]:
    """Checks an action and makes data of it. Raises `InvalidActionError`."""
    check: Callable[[Any], Any] = _unchecked
    if type_ is not None:
        from envweave.core.actions import rule_for_type

        check = rule_for_type(type_).check

    def write(action: Any) -> Any:
        checked = check(action)
        data = sendable(checked, "action", InvalidActionError)
        if isinstance(data, dict) and not isinstance(checked, Mapping) and data.get("metadata") == {}:
            del data["metadata"]  # a server whose actions have no metadata must not see an empty one
        return data

    return write


def _unchecked(action: Any) -> Any:
    return action


def reader(type_: Any, what: str) -> Callable[[Any], Any]:
    """Makes an instance of the type from data. Raises `ProtocolError`; keys the type does not have are left out."""
    if type_ is None:
        return _unchecked
    from envweave.core.schema import adapter, explain

    parse = adapter(type_).validator.validate_python
    known = _only_keys(type_)
    name = getattr(type_, "__name__", str(type_))

    def read(data: Any) -> Any:
        if known is not None and isinstance(data, dict):
            data = {key: value for key, value in data.items() if key in known}
        try:
            return parse(data)
        except ValueError as error:
            problem = f"the server's {what} does not fit {name}: {explain(error)}"
            raise ProtocolError(problem, f"is {what}_type right?") from None

    return read


def fields_of(type_: Any) -> frozenset[str]:
    """The names of a dataclass's, a pydantic model's or a TypedDict's fields."""
    if dataclasses.is_dataclass(type_):
        return frozenset(field.name for field in dataclasses.fields(type_))
    fields = getattr(type_, "model_fields", None)
    return frozenset(fields if isinstance(fields, dict) else getattr(type_, "__annotations__", ()))


def _only_keys(type_: Any) -> frozenset[str] | None:
    """The keys that a type takes if it refuses others; None if it does not."""
    config = getattr(type_, "model_config", None) or getattr(type_, "__pydantic_config__", None) or {}
    if config.get("extra") != "forbid":
        return None
    fields = getattr(type_, "model_fields", None)
    aliases: set[str] = set()
    for field in fields.values() if isinstance(fields, dict) else ():
        aliases |= {alias for alias in (field.alias, field.validation_alias) if isinstance(alias, str)}
    return fields_of(type_) | aliases

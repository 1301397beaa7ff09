"""From the signature of a function to JSON Schema, and from JSON data back to arguments of the types it declares."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

from envweave.core.jsonable import to_json
from envweave.errors import BadResultError, NotJSONableError, UsageError, describe

Schema = dict[str, Any]


def signature_of(function: Callable[..., Any], name: str) -> inspect.Signature:
    """The signature with its types resolved. Raises `UsageError` for one that cannot be a tool's."""
    try:
        found = inspect.signature(function, eval_str=True)
    except (TypeError, ValueError):
        raise UsageError(f"{name} has no signature that can be read", "wrap it in a `def` with parameters") from None
    except Exception as error:  # an annotation is an expression of the author's
        hint = "types of a tool's parameters must be importable from its module"
        raise UsageError(f"the types of {name} cannot be read: {describe(error)}", hint) from None
    for parameter in found.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(f"{name} takes {parameter}", "a tool names its parameters; use one that is a list or dict")
    return found


class TypedArguments:
    """The parameters of a function: their schema, and how data becomes arguments."""

    def __init__(self, signature: inspect.Signature, name: str, notes: Mapping[str, str]) -> None:
        """`notes` are descriptions of parameters, for those that have none in their type."""
        from envweave.core.schema import adapter  # pydantic, loaded with the first function

        self._parameters = signature.parameters
        form = _as_dataclass(self._parameters, name)
        try:
            self._adapter = adapter.__wrapped__(form)  # not kept for ever: a tool may be a method of an episode's
            schema = self._adapter.json_schema()
        except Exception as error:  # pydantic has several kinds for a type that it cannot read or describe
            raise _unfit(self._parameters, name, error) from error
        self.schema = _tidied(schema, self._parameters, notes)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in the types of the signature, those that were given. Raises `ValueError`."""
        from envweave.core.schema import explain

        try:
            read = self._adapter.validate_python(dict(arguments))
        except ValueError as error:
            raise ValueError(explain(error)) from None
        return {name: getattr(read, name) for name in self._parameters if name in arguments}


def shown(signature: inspect.Signature) -> inspect.Signature:
    """The signature as a reader wants it: what stands beside a type is in the schema."""
    plain = [
        parameter.replace(annotation=get_args(parameter.annotation)[0])
        if get_origin(parameter.annotation) is Annotated
        else parameter
        for parameter in signature.parameters.values()
    ]
    return signature.replace(parameters=plain)


def returned_schema(signature: inspect.Signature) -> Schema | None:
    """The schema of what the function returns, or None if it does not say."""
    from envweave.core.schema import json_schema

    type_ = signature.return_annotation
    if type_ in (inspect.Signature.empty, Any, None, object):
        return None
    try:
        found = json_schema(type_)
    except (BadResultError, TypeError):  # a type that refers to nothing, or that cannot be kept in a cache
        return None
    return {key: value for key, value in found.items() if key != "title"} if found else None


def _as_dataclass(parameters: Mapping[str, inspect.Parameter], name: str) -> type:
    """A class with a field for each parameter. One with a default may be left out: the default is the function's."""
    fields = []
    for parameter in parameters.values():
        field = (
            dataclasses.field() if parameter.default is parameter.empty else dataclasses.field(default_factory=_none)
        )
        fields.append((parameter.name, _type(parameter), field))
    strict = {"__pydantic_config__": {"extra": "forbid"}}
    return dataclasses.make_dataclass(name, fields, kw_only=True, namespace=strict)


def _none() -> None:
    return None


def _type(parameter: inspect.Parameter) -> Any:
    return Any if parameter.annotation is parameter.empty else parameter.annotation


def _unfit(parameters: Mapping[str, inspect.Parameter], name: str, error: Exception) -> UsageError:
    """Which parameter it is that has no schema."""
    from envweave.core.schema import adapter

    for parameter in parameters.values():
        try:
            adapter.__wrapped__(_type(parameter)).json_schema()
        except Exception:  # see above; this is the one
            shown = str(parameter).partition(" = ")[0]
            return UsageError(f"the parameter `{shown}` of {name} has no JSON form", "use types that JSON can carry")
    return UsageError(f"the parameters of {name} have no JSON Schema: {describe(error)[:200]}")


def _tidied(schema: Schema, parameters: Mapping[str, inspect.Parameter], notes: Mapping[str, str]) -> Schema:
    properties = {}
    for name, parameter in parameters.items():
        found = dict(schema.get("properties", {}).get(name, {}))
        if found.get("title") == name.replace("_", " ").title():  # pydantic's own
            del found["title"]
        note = _note(parameter) or notes.get(name)
        if note and "description" not in found:
            found["description"] = note
        if parameter.default is not parameter.empty:
            found |= _default(parameter.default)
        properties[name] = found
    own = {key: value for key, value in schema.items() if key not in ("title", "description", "properties")}
    return {"type": "object", "properties": properties, **own}


def _note(parameter: inspect.Parameter) -> str | None:
    """The text in `Annotated[str, "what it is"]`."""
    if get_origin(parameter.annotation) is not Annotated:
        return None
    return next((part for part in get_args(parameter.annotation)[1:] if isinstance(part, str)), None)


def _default(value: Any) -> Schema:
    try:
        return {"default": to_json(value)}
    except NotJSONableError:
        return {}

"""From the signature of a function to JSON Schema, and from JSON data to arguments of the types it declares."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

from envweave.core.jsonable import to_json
from envweave.errors import BadResultError, NotJSONableError, UsageError, describe
from envweave.tools.docstring import read_docs

Schema = dict[str, Any]


def signature_of(function: Callable[..., Any], name: str) -> inspect.Signature:
    """Return the signature with its types resolved. Raises `UsageError` if it cannot be that of a tool."""
    try:
        found = inspect.signature(function, eval_str=True)
    except (TypeError, ValueError):
        raise UsageError(f"{name} has no signature that can be read", "wrap it in a `def` with parameters") from None
    except Exception as error:  # an annotation may be any expression
        hint = "types of a tool's parameters must be importable from its module"
        raise UsageError(f"the types of {name} cannot be read: {describe(error)}", hint) from None
    for parameter in found.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(f"{name} takes {parameter}", "a tool names its parameters; use one that is a list or dict")
    return found


class TypedArguments:
    """The parameters of a function: their JSON Schema, and how data becomes arguments."""

    def __init__(self, signature: inspect.Signature, name: str, descriptions: Mapping[str, str]) -> None:
        """`descriptions` are for parameters that have none in their type."""
        from envweave.core.schema import adapter  # pydantic, loaded with the first function

        self.signature = signature
        self._parameters = signature.parameters
        form = _as_dataclass(self._parameters, name)
        try:
            self._adapter = adapter.__wrapped__(form)  # not cached: a tool may be a method of one episode's object
            schema = self._adapter.json_schema()
        except Exception as error:  # pydantic raises several kinds for a type that it cannot describe
            raise _type_error(self._parameters, name, error) from error
        self.schema = _tidied(schema, self._parameters, descriptions)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments in the types of the signature. Raises `ValueError`."""
        from envweave.core.schema import explain

        try:
            read = self._adapter.validate_python(dict(arguments))
        except ValueError as error:
            raise ValueError(explain(error)) from None
        return {name: getattr(read, name) for name in self._parameters if name in arguments}

    def from_call(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Return the arguments of a Python call by name."""
        return bound.arguments

    def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Call the function with arguments that `read` returned."""
        bound = inspect.BoundArguments(self.signature, arguments)
        bound.apply_defaults()
        return function(*bound.args, **bound.kwargs)

    def help(self, function: Callable[..., Any], description: str) -> str:
        """Return the docstring of the function, if the description is from there, else the description."""
        own = inspect.getdoc(function) if not isinstance(function, functools.partial) else None
        return own if own and read_docs(function).text == description else description


def without_annotated(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature with `Annotated[T, …]` replaced by `T`."""
    plain = [
        parameter.replace(annotation=get_args(parameter.annotation)[0])
        if get_origin(parameter.annotation) is Annotated
        else parameter
        for parameter in signature.parameters.values()
    ]
    return signature.replace(parameters=plain)


def returned_schema(signature: inspect.Signature) -> Schema | None:
    """Return the schema of what the function returns, or None if its type is not declared."""
    from envweave.core.schema import json_schema

    type_ = signature.return_annotation
    if type_ in (inspect.Signature.empty, Any, None, object):
        return None
    try:
        found = json_schema(type_)
    except (BadResultError, TypeError):  # a type that cannot be resolved or hashed
        return None
    return {key: value for key, value in found.items() if key != "title"} if found else None


def _as_dataclass(parameters: Mapping[str, inspect.Parameter], name: str) -> type:
    """Return a class with a field per parameter. Defaults are left to the function."""
    fields = []
    for parameter in parameters.values():
        required = parameter.default is parameter.empty
        field = dataclasses.field() if required else dataclasses.field(default_factory=lambda: None)
        fields.append((parameter.name, _type(parameter), field))
    strict = {"__pydantic_config__": {"extra": "forbid"}}
    return dataclasses.make_dataclass(name, fields, kw_only=True, namespace=strict)


def _type(parameter: inspect.Parameter) -> Any:
    return Any if parameter.annotation is parameter.empty else parameter.annotation


def _type_error(parameters: Mapping[str, inspect.Parameter], name: str, error: Exception) -> UsageError:
    """Name the parameter that has no schema."""
    from envweave.core.schema import adapter

    for parameter in parameters.values():
        try:
            adapter.__wrapped__(_type(parameter)).json_schema()
        except Exception:  # see above
            shown = str(parameter).partition(" = ")[0]
            return UsageError(f"the parameter `{shown}` of {name} has no JSON form", "use types that JSON can carry")
    return UsageError(f"the parameters of {name} have no JSON Schema: {describe(error)[:200]}")


def _tidied(schema: Schema, parameters: Mapping[str, inspect.Parameter], descriptions: Mapping[str, str]) -> Schema:
    properties = {}
    for name, parameter in parameters.items():
        found = dict(schema.get("properties", {}).get(name, {}))
        if found.get("title") == name.replace("_", " ").title():  # added by pydantic
            del found["title"]
        text = _annotated_text(parameter) or descriptions.get(name)
        if text and "description" not in found:
            found["description"] = text
        if parameter.default is not parameter.empty:
            try:
                found["default"] = to_json(parameter.default)
            except NotJSONableError:
                pass
        properties[name] = found
    own = {key: value for key, value in schema.items() if key not in ("title", "description", "properties")}
    return {"type": "object", "properties": properties, **own}


def _annotated_text(parameter: inspect.Parameter) -> str | None:
    """Return the text in `Annotated[str, "description"]`."""
    if get_origin(parameter.annotation) is not Annotated:
        return None
    return next((part for part in get_args(parameter.annotation)[1:] if isinstance(part, str)), None)

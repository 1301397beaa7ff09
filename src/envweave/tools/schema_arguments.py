"""Arguments of a tool that is known only by its JSON Schema: its Python signature, and a check of the names.

Values are checked by the tool itself or by the server behind it.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Mapping
from typing import Any, Literal

_TYPES: dict[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict, "null": None,
}  # fmt: skip


class _Required:
    """Default of a required parameter that follows an optional one."""

    def __repr__(self) -> str:
        return "<required>"


_REQUIRED = _Required()


class SchemaArguments:
    """The properties of a schema as the parameters of a Python function, in their order."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties, required = schema.get("properties"), schema.get("required")
        self._properties: dict[str, Any] = dict(properties) if isinstance(properties, Mapping) else {}
        self._required = [name for name in _list(required) if isinstance(name, str)]
        self._additional = schema.get("additionalProperties")
        self._names = dict(zip(identifiers(list(self._properties)), self._properties, strict=True))
        self.signature = self._signature()

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments. Raises `ValueError` if one is missing or unknown."""
        for name in self._required:
            if name not in arguments:
                raise ValueError(f"{name}: is required")
        for name in arguments:
            if self._additional is False and name not in self._properties:
                raise ValueError(f"{name[:80]}: there is no such parameter")
        return dict(arguments)

    def from_call(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Return the arguments of a Python call by the names of the schema, without None where null is not allowed."""
        given: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if name not in self._names:  # **others
                given |= value
                continue
            original = self._names[name]
            absent = value is None and original not in self._required and not _takes_null(self._properties[original])
            if value is not _REQUIRED and not absent:
                given[original] = value
        return given

    def run(self, function: Any, arguments: dict[str, Any]) -> Any:
        """Call the function with arguments that `read` returned."""
        return function(**arguments)

    def help(self, function: Any, description: str) -> str:
        """Return the description, with a line for each parameter that has one."""
        texts = {name: _description(self._properties[original]) for name, original in self._names.items()}
        lines = [f"    {name}: {text}" for name, text in texts.items() if text]
        return "\n".join([description, "", "Args:", *lines]).strip() if lines else description

    def _signature(self) -> inspect.Signature:
        parameters, optional = [], False
        for name, original in self._names.items():
            schema = self._properties[original]
            default: Any = inspect.Parameter.empty
            if original not in self._required:
                default, optional = (schema.get("default") if isinstance(schema, Mapping) else None), True
            elif optional:
                default = _REQUIRED
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(inspect.Parameter(name, kind, default=default, annotation=_annotation(schema)))
        if self._additional:
            (rest,) = identifiers(["others"], taken=self._names)
            parameters.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature(parameters)


def identifiers(names: list[str], taken: Any = ()) -> list[str]:
    """Return the names as distinct Python identifiers: `file-path` becomes `file_path`, `class` becomes `class_`."""
    found: list[str] = []
    for name in names:
        made = identifier(name)
        while made in found or made in taken:
            made += "_"
        found.append(made)
    return found


def identifier(name: str) -> str:
    """Return the name as a Python identifier."""
    made = re.sub(r"\W", "_", name)
    if not made.isidentifier():
        made = f"_{made}"
    return f"{made}_" if keyword.iskeyword(made) else made


def _annotation(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return inspect.Parameter.empty
    choices = _list(schema.get("enum"))
    if choices and all(isinstance(one, str | int | bool | None) for one in choices):
        return Literal[tuple(choices)]
    kind = schema.get("type")
    return _TYPES.get(kind, inspect.Parameter.empty) if isinstance(kind, str) else inspect.Parameter.empty


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not {"type", "enum", "anyOf", "oneOf", "$ref"} & set(schema):
        return True
    kinds = [schema, *_list(schema.get("anyOf")), *_list(schema.get("oneOf"))]
    return None in _list(schema.get("enum")) or any(
        isinstance(kind, Mapping)
        and (kind.get("type") == "null" or "null" in _list(kind.get("type")) or "$ref" in kind)
        for kind in kinds
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _description(schema: Any) -> str:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return " ".join(text.split()) if isinstance(text, str) else ""

"""Arguments of a tool that is known by its JSON Schema alone: how Python passes them, and what can be checked here.

Only names are checked; values are the tool's own business, or that of the server behind it.
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


class Required:
    """Stands in a signature for the default of a parameter that must be given, where one before it need not."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED = Required()


class LooseArguments:
    """Properties of a schema, as the parameters of a Python function, in their order."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        found = schema.get("properties")
        self._properties: dict[str, Any] = dict(found) if isinstance(found, Mapping) else {}
        required = schema.get("required")
        self._required = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        self._closed = schema.get("additionalProperties") is False
        self._names = dict(zip(identifiers(list(self._properties)), self._properties, strict=True))
        self._open = bool(schema.get("additionalProperties"))
        self.signature = self._signature()

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The same arguments, if none is missing and none unknown. Raises `ValueError`."""
        missing = [name for name in self._required if name not in arguments]
        if missing:
            raise ValueError(f"{missing[0]}: is required")
        unknown = [name for name in arguments if name not in self._properties] if self._closed else []
        if unknown:
            raise ValueError(f"{unknown[0][:80]}: there is no such parameter")
        return dict(arguments)

    def named(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """What Python code passed, under the names of the schema. None, where there is no null, is "not given"."""
        given: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if name not in self._names:  # the **others
                given |= value
                continue
            original = self._names[name]
            absent = value is None and original not in self._required and not _takes_null(self._properties[original])
            if value is not REQUIRED and not absent:
                given[original] = value
        return given

    def help(self, description: str) -> str:
        """The description, with a line for each parameter that has one."""
        lines = [f"    {name}: {_description(self._properties[original])}" for name, original in self._names.items()]
        told = [line for line in lines if not line.endswith(": ")]
        return "\n".join([description, "", "Args:", *told]).strip() if told else description

    def _signature(self) -> inspect.Signature:
        parameters, optional = [], False
        for name, original in self._names.items():
            schema = self._properties[original]
            default: Any = inspect.Parameter.empty
            if original not in self._required:
                default, optional = (schema.get("default") if isinstance(schema, Mapping) else None), True
            elif optional:
                default = REQUIRED
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(inspect.Parameter(name, kind, default=default, annotation=_annotation(schema)))
        if self._open:
            (rest,) = identifiers(["others"], taken=self._names)
            parameters.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature(parameters)


def identifiers(names: list[str], taken: Any = ()) -> list[str]:
    """The names as Python identifiers, no two alike: `file-path` is `file_path`, `class` is `class_`."""
    found: list[str] = []
    for name in names:
        made = identifier(name)
        while made in found or made in taken:
            made += "_"
        found.append(made)
    return found


def identifier(name: str) -> str:
    """The name as Python code can write it."""
    made = re.sub(r"\W", "_", name)
    if not made.isidentifier():
        made = f"_{made}"
    return f"{made}_" if keyword.iskeyword(made) else made


def _annotation(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return inspect.Parameter.empty
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(one, str | int | bool | None) for one in choices):
        return Literal[tuple(choices)]
    kind = schema.get("type")
    return _TYPES.get(kind, inspect.Parameter.empty) if isinstance(kind, str) else inspect.Parameter.empty


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not {"type", "enum", "anyOf", "oneOf", "$ref"} & set(schema):
        return True
    kinds = [schema, *_list(schema.get("anyOf")), *_list(schema.get("oneOf"))]
    return any(
        isinstance(kind, Mapping)
        and (kind.get("type") == "null" or "null" in _list(kind.get("type")) or "$ref" in kind)
        for kind in kinds
    ) or None in _list(schema.get("enum"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _description(schema: Any) -> str:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return " ".join(text.split()) if isinstance(text, str) else ""

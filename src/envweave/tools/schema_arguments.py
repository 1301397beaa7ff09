"""Arguments of a tool that is known only by its JSON Schema: its Python signature, and a check of names and types.

The type and the enum of each argument are checked. What is inside of it is checked by the tool itself or by the server
behind it.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

_TYPES: dict[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict, "null": None,
}  # fmt: skip
_VALUES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list, tuple),
    "object": (Mapping,), "null": (type(None),),
}  # fmt: skip


class _Required:
    """Default of a required parameter that follows an optional one."""

    def __repr__(self) -> str:
        return "<required>"


_REQUIRED = _Required()


class SchemaArguments:
    """The properties of a schema as the parameters of a Python function, in their order."""

    def __init__(self, schema: dict[str, Any] | None, output_schema: dict[str, Any] | None) -> None:
        self.schema = {"type": "object", "properties": {}} if schema is None else schema
        self.output_schema = output_schema
        self._properties = {name: _mapping(each) for name, each in _mapping(self.schema.get("properties")).items()}
        self._required = [name for name in _list(self.schema.get("required")) if isinstance(name, str)]
        self._additional = self.schema.get("additionalProperties")
        self._names = dict(zip(identifiers(list(self._properties)), self._properties, strict=True))
        texts = {name: self._properties[original].get("description") for name, original in self._names.items()}
        self.descriptions = {name: text for name, text in texts.items() if text and isinstance(text, str)}
        self.signature = self._signature()

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments. Raises `ValueError` if one is missing, unknown or of another type."""
        for name in self._required:
            if name not in arguments:
                raise ValueError(f"{name}: is required")
        for name, value in arguments.items():
            if self._additional is False and name not in self._properties:
                raise ValueError(f"{name[:80]}: there is no such parameter")
            _check(name, value, self._properties.get(name, {}))
        return dict(arguments)

    def from_call(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Return the arguments of a Python call by the names of the schema, without None where null is not allowed."""
        given: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            original = self._names.get(name)
            if original is None:  # **others
                given |= value
            elif value is None and original not in self._required and not _takes_null(self._properties[original]):
                continue
            elif value is not _REQUIRED:
                given[original] = value
        return given

    def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Call the function with arguments that `read` returned."""
        return function(**arguments)

    def _signature(self) -> inspect.Signature:
        parameters: list[inspect.Parameter] = []
        after_optional: Any = inspect.Parameter.empty
        for name, original in self._names.items():
            schema, default = self._properties[original], after_optional
            if original not in self._required:
                default, after_optional = schema.get("default"), _REQUIRED
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


def _annotation(schema: Mapping[str, Any]) -> Any:
    choices, kind = _list(schema.get("enum")), schema.get("type")
    if choices and all(isinstance(one, str | int | bool | None) for one in choices):
        return Literal[tuple(choices)]
    return _TYPES.get(kind, inspect.Parameter.empty) if isinstance(kind, str) else inspect.Parameter.empty


def _check(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Raise `ValueError` for a value that has another type than the schema says, or is none of its choices."""
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else _list(schema.get("type"))
    if kinds and not any(_is(value, kind) for kind in kinds):
        raise ValueError(f"{name[:80]}: should be of type {' or '.join(map(str, kinds))}, got {value!r:.80}")
    choices = _list(schema.get("enum"))
    if choices and value not in choices:
        raise ValueError(f"{name[:80]}: should be one of {choices!r:.200}, got {value!r:.80}")


def _is(value: Any, kind: Any) -> bool:
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    if isinstance(value, float) and kind == "integer":
        return value.is_integer()
    return not isinstance(kind, str) or kind not in _VALUES or isinstance(value, _VALUES[kind])


def _takes_null(schema: Mapping[str, Any]) -> bool:
    if not {"type", "enum", "anyOf", "oneOf", "$ref"} & set(schema):
        return True
    kinds = map(_mapping, [schema, *_list(schema.get("anyOf")), *_list(schema.get("oneOf"))])
    return None in _list(schema.get("enum")) or any(
        "null" in (kind.get("type"), *_list(kind.get("type"))) or "$ref" in kind for kind in kinds
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return what is not a mapping, such as the schema `true`, as an empty one."""
    return value if isinstance(value, Mapping) else {}

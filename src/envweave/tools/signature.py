"""A Python function as a tool: signature and docstring give the JSON Schema; JSON data becomes arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from envweave.core.jsonable import to_json
from envweave.errors import BadResultError, NotJSONableError, UsageError, describe
from envweave.types import Observation

Schema = dict[str, Any]

_PLAIN = (str, int, float, bool, list, dict, None, type(None), Any, inspect.Parameter.empty)


class FunctionArguments:
    """The parameters of a function. Schemas are built when they are first needed.

    Raises `UsageError` for `*args`, `**kwargs`, and types that JSON cannot carry.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        found = _read_signature(function, name)
        self._name = name
        self._parameters = found.parameters
        self.signature = found.replace(parameters=[_without_annotated(each) for each in found.parameters.values()])
        documented = function.func if isinstance(function, partial) else function
        self.description, self._docs = _read_docstring(inspect.getdoc(documented) or "")
        for parameter in found.parameters.values():
            if not _is_plain(parameter.annotation):
                _check_type(parameter, name)

    @cached_property
    def _compiled(self) -> tuple[Any, Schema]:
        """The validator and its JSON Schema."""
        return _compile(self._name, self._parameters.values())

    @cached_property
    def schema(self) -> Schema:
        schema = self._compiled[1]
        properties = {name: self._property(name, schema["properties"][name]) for name in self._parameters}
        kept = {key: value for key, value in schema.items() if key not in ("title", "properties")}
        return {"type": "object", "properties": properties, **kept}

    def _property(self, name: str, schema: Schema) -> Schema:
        """Return the schema of a parameter, with its description and default, without the title that pydantic adds."""
        made = dict(schema)
        if made.get("title") == name.replace("_", " ").title():
            del made["title"]
        parameter = self._parameters[name]
        text = _annotated_text(parameter.annotation) or self._docs.get(name)
        if text:
            made.setdefault("description", text)
        if parameter.default is not parameter.empty:
            try:
                made["default"] = to_json(parameter.default)
            except NotJSONableError:
                pass
        return made

    @property
    def descriptions(self) -> dict[str, str]:
        """The descriptions of the parameters that have one."""
        properties = self.schema["properties"]
        return {name: each["description"] for name, each in properties.items() if "description" in each}

    @cached_property
    def output_schema(self) -> Schema | None:
        """The schema of what the function returns; None if its type is not declared or has no schema.

        An observation has none: a caller gets its text or its result.
        """
        from envweave.core.schema import json_schema

        type_ = self.signature.return_annotation
        if type_ in (inspect.Signature.empty, Any, None, object):
            return None
        if isinstance(type_, type) and issubclass(type_, Observation):
            return None
        try:
            found = json_schema(type_)
        except (BadResultError, TypeError):  # a type that cannot be resolved or hashed
            return None
        return {key: value for key, value in found.items() if key != "title"} if found else None

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments in the types of the signature. Raises `ValueError`."""
        from envweave.core.schema import explain

        for name in arguments:
            if name not in self._parameters:
                raise ValueError(f"{name[:80]}: unexpected keyword argument")
        try:
            read: dict[str, Any] = self._compiled[0].validate_python(dict(arguments))
            return read
        except ValueError as error:
            raise ValueError(explain(error)) from None

    def from_call(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Return the arguments of a Python call by name."""
        return bound.arguments

    def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Call the function with arguments that `read` returned."""
        bound = inspect.BoundArguments(self.signature, arguments)
        bound.apply_defaults()
        return function(*bound.args, **bound.kwargs)


def _read_signature(function: Callable[..., Any], name: str) -> inspect.Signature:
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


def _compile(name: str, parameters: Iterable[inspect.Parameter]) -> tuple[Any, Schema]:
    from envweave.core.schema import object_adapter  # pydantic, loaded with the first call or schema

    fields = {
        each.name: (Any if each.annotation is each.empty else each.annotation, each.default is each.empty)
        for each in parameters
    }
    made = object_adapter(name, fields)
    return made, made.json_schema()


def _check_type(parameter: inspect.Parameter, name: str) -> None:
    try:
        _compile(name, [parameter])
    except Exception as error:  # pydantic raises several kinds for a type that it cannot describe
        shown = str(parameter).partition(" = ")[0]
        hint = "use types that JSON can carry"
        raise UsageError(f"the parameter `{shown}` of {name} has no JSON form", hint) from error


def _is_plain(type_: Any) -> bool:
    """Whether the type certainly has a JSON form, so that its schema can be built later."""
    origin, parts = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return _is_plain(parts[0]) and all(isinstance(part, str) for part in parts[1:])
    if origin is Literal:
        return all(isinstance(part, str | int | None) for part in parts)
    if origin in (list, dict, Union, UnionType):
        return all(map(_is_plain, parts))
    return any(type_ is plain for plain in _PLAIN)


def _without_annotated(parameter: inspect.Parameter) -> inspect.Parameter:
    """Replace `Annotated[T, …]` by `T`."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter
    return parameter.replace(annotation=get_args(parameter.annotation)[0])


def _annotated_text(type_: Any) -> str | None:
    """Return the text in `Annotated[str, "description"]`."""
    parts = get_args(type_) if get_origin(type_) is Annotated else ()
    return next((part for part in parts[1:] if isinstance(part, str)), None)


_SECTION = re.compile(r"^(args|arguments|parameters)\s*:\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_FIELD = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


def _read_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Return the text without the descriptions of parameters, and these by name.

    They are in a section `Args:` with an indented entry per parameter, or in lines `:param name: …`.
    """
    kept: list[str] = []
    found: dict[str, str] = {}
    name, in_section, entry_indent = "", False, -1
    for line in docstring.splitlines():
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if text and indent == 0:
            in_section = False
        if in_section:
            entry_indent = indent if text and entry_indent < 0 else entry_indent
            entry = _ENTRY.match(text) if indent == entry_indent else None
        else:
            entry = _FIELD.match(line)
        if entry:
            name = entry[1]
            found[name] = entry[2].strip()
        elif _SECTION.match(line):
            name, in_section, entry_indent = "", True, -1
        elif name and text and indent:
            found[name] = f"{found[name]} {text}".strip()
        elif not in_section:
            name = ""
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), found

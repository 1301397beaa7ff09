"""The one door to pydantic: validation and JSON Schema, once per type.

Imported when the first type is looked at and not before: pydantic costs more than all the rest of
`import envweave`.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, NotRequired, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from typing_extensions import TypedDict, is_typeddict

from envweave.errors import BadResultError
from envweave.types import Action, Observation

_NOT_FOR_AGENTS = {Action: ("metadata",), Observation: ("metadata",)}


@cache
def adapter(type_: Any) -> TypeAdapter[Any]:
    """The type's validator. Raises `BadResultError` for a type that refers to what does not exist."""
    try:
        made: TypeAdapter[Any] = TypeAdapter(_typed_dict(type_) if is_typeddict(type_) else type_)
        made.rebuild(raise_errors=True)  # pydantic would put off a name it cannot resolve to the first use
        return made
    except PydanticSchemaGenerationError:
        raise
    except (PydanticUserError, NameError) as error:
        reason = str(error).partition("\n")[0]
        raise BadResultError(f"{getattr(type_, '__name__', type_)} cannot be validated: {reason}") from error


def _typed_dict(type_: Any) -> Any:
    """The same TypedDict in the form that pydantic reads on every Python."""
    fields = {
        key: hint if key in type_.__required_keys__ else NotRequired[hint]
        for key, hint in get_type_hints(type_).items()
    }
    same = TypedDict(type_.__name__, fields)  # type: ignore[misc]
    same.__doc__ = type_.__doc__
    return same


def json_schema(type_: Any) -> dict[str, Any] | None:
    """The type's JSON Schema, or None for a type that has none. `metadata` is not the agent's business."""
    try:
        schema = adapter(type_).json_schema()
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
        return None
    for base, names in _NOT_FOR_AGENTS.items():
        if isinstance(type_, type) and issubclass(type_, base):
            for name in names:
                schema.get("properties", {}).pop(name, None)
    return schema


def validate(type_: Any, value: Any) -> Any:
    """The value as an instance of the type. Raises the `ValueError` that `explain` explains.

    An instance is checked too: dataclasses do not check themselves. An instance of a subclass stays
    what it is.
    """
    data = value
    if isinstance(type_, type) and type_ is not Any and isinstance(value, type_):
        if dataclasses.is_dataclass(type_):
            data = {f.name: getattr(value, f.name) for f in dataclasses.fields(type_)}
        elif isinstance(value, BaseModel):
            data = dict(value.__dict__)
    checked = adapter(type_).validate_python(data, by_name=True, by_alias=True)
    is_subclass = data is not value and type(value) is not type_
    return value if is_subclass else checked


def explain(error: ValueError) -> str:
    """What is wrong, field by field, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False)
    lines = []
    for one in found[:3]:
        where = ".".join(str(part) for part in one["loc"])
        message = one["msg"][:1].lower() + one["msg"][1:]
        got = "" if one["type"] in ("missing", "missing_argument") else f", got {_short(one['input'])}"
        lines.append(f"{where + ': ' if where else ''}{message}{got}")
    if len(found) > 3:
        lines.append(f"and {len(found) - 3} more")
    return "; ".join(lines)


def _short(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

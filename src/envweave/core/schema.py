"""Validation and JSON Schema of types, by pydantic and once per type.

No other module imports pydantic, and this one is imported with the first typed environment: pydantic takes longer to
import than the rest of `import envweave`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from enum import Enum, Flag, IntEnum, StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Required, get_type_hints

from pydantic import BaseModel, Field, InstanceOf, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema
from typing_extensions import TypedDict, is_typeddict

from envweave.core.arrays import array_dtype, is_array_type, is_scalar_type
from envweave.errors import BadResultError
from envweave.types import Action, Observation

PositiveInt = Annotated[int, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveNumber = Annotated[float, Field(gt=0, lt=1e9)]
NonNegativeNumber = Annotated[float, Field(ge=0)]
VariableName = Annotated[str, Field(pattern="^[^=]+$")]
if TYPE_CHECKING:
    Text = str
else:
    Text = InstanceOf[str]  # as it is: not copied, and also with lone surrogates
"""Types of options, for modules that do not import pydantic."""

_NOT_FOR_AGENTS = {Action: ("metadata",), Observation: ("metadata",)}


def between(least: int, most: int) -> Any:
    """The range of a number in `Annotated`, with both ends."""
    return Field(ge=least, le=most)


class _MarkedSchema(GenerateJsonSchema):
    """With the keywords that `wire.records` reads; see `full_schema`."""

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> dict[str, Any]:
        return {**super().typed_dict_schema(schema), "x-dict": True}

    def tuple_schema(self, schema: core_schema.TupleSchema) -> dict[str, Any]:
        return {**super().tuple_schema(schema), "x-tuple": True}

    def enum_schema(self, schema: core_schema.EnumSchema) -> dict[str, Any]:
        made, cls = super().enum_schema(schema), schema["cls"]
        if issubclass(cls, Flag):  # has values that no member has
            return made
        base = next((each for each in (StrEnum, IntEnum, str, int) if issubclass(cls, each)), Enum)
        return {**made, "x-enum": {"base": base.__name__, "names": [member.name for member in schema["members"]]}}

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> dict[str, Any]:
        """A type that is unknown to pydantic: an array, or any value."""
        return _array_schema(schema["cls"]) if is_array_type(schema["cls"]) else {}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> dict[str, Any]:
        """With the fields in the order of the class, as its `repr` has them, and the dtypes that its hints name."""
        made = super().dataclass_schema(schema)
        parts = made.get("properties", {})
        hints = {field.name: field.type for field in dataclasses.fields(schema["cls"])}
        if any("x-numpy" in str(part) for part in parts.values()):
            hints |= get_type_hints(schema["cls"])
        named = {name: _array_schema(hint) for name, hint in hints.items() if is_array_type(hint)}
        ordered = [*(name for name in hints if name in parts), *(name for name in parts if name not in hints)]
        return {**made, "properties": {name: parts[name] | named.get(name, {}) for name in ordered}}


def _array_schema(type_: Any) -> dict[str, Any]:
    dtype = array_dtype(type_)
    described: dict[str, Any] = {} if dtype is None else {"dtype": dtype.__name__}
    if is_scalar_type(type_):
        return {"x-numpy": {**described, "shape": []}}
    return {"type": "array", "x-numpy": described}


@cache
def adapter(type_: Any) -> TypeAdapter[Any]:
    """The validator of a type. Raises `BadResultError` for a type that refers to a name that does not exist."""
    try:
        made: TypeAdapter[Any] = TypeAdapter(_typed_dict(type_) if is_typeddict(type_) else type_)
        made.rebuild(raise_errors=True)  # otherwise a name that cannot be resolved is an error at the first use only
        return made
    except PydanticSchemaGenerationError:
        raise
    except (PydanticUserError, NameError) as error:
        reason = str(error).partition("\n")[0]
        raise BadResultError(f"{getattr(type_, '__name__', type_)} cannot be validated: {reason}") from error


def _typed_dict(type_: Any) -> Any:
    """The same TypedDict from `typing_extensions`, which pydantic accepts on every version of Python."""
    fields = {
        key: hint if key in type_.__required_keys__ else NotRequired[hint]
        for key, hint in get_type_hints(type_).items()
    }
    same = TypedDict(type_.__name__, fields)  # type: ignore[misc]
    same.__doc__ = type_.__doc__
    return same


def object_adapter(name: str, fields: Mapping[str, tuple[Any, bool]]) -> TypeAdapter[Any]:
    """The validator of a dict with these keys and no others: a type for each, and whether it is required."""
    hints = {key: Required[hint] if required else NotRequired[hint] for key, (hint, required) in fields.items()}
    type_ = TypedDict(name, hints)  # type: ignore[misc]
    type_.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    made: TypeAdapter[Any] = TypeAdapter(type_)
    made.rebuild(raise_errors=True)
    return made


def json_schema(type_: Any) -> dict[str, Any] | None:
    """The JSON Schema of a type, or None if it has none. Leaves out `metadata`, which agents do not see."""
    try:
        schema = adapter(type_).json_schema()
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
        return None
    for base, names in _NOT_FOR_AGENTS.items():
        if isinstance(type_, type) and issubclass(type_, base):
            for name in names:
                schema.get("properties", {}).pop(name, None)
    return schema


@cache
def full_schema(type_: Any) -> dict[str, Any] | None:
    """The JSON Schema of a type as it is sent, with all its fields; None for a type that has none.

    Keywords beside those of JSON Schema: `x-dict` marks a TypedDict, whose values are dicts and not objects, and
    `x-tuple` a tuple. `x-enum` has the names and the base class of an enum, `x-numpy` the dtype of an array, if it is
    known, and the shape [] of a scalar.
    """
    options: dict[str, Any] = {"schema_generator": _MarkedSchema, "mode": "serialization", "by_alias": False}
    try:
        return adapter(type_).json_schema(**options)
    except PydanticSchemaGenerationError:
        pass
    except (PydanticInvalidForJsonSchema, BadResultError):
        return None
    try:  # with parts of types that pydantic does not know; a dataclass takes the configuration of what it is in
        around: TypeAdapter[Any] = TypeAdapter(tuple[type_], config={"arbitrary_types_allowed": True})
        schema = around.json_schema(**options)
    except (PydanticUserError, NameError):
        return None
    return {**schema["prefixItems"][0], "$defs": schema.get("$defs", {})}


def validate(type_: Any, value: Any) -> Any:
    """The value as an instance of the type. Raises a `ValueError`, which `explain` puts into one line.

    An instance is validated too, because dataclasses do not validate their fields. An instance of a subclass is
    returned unchanged.
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


_NAMES_ONLY = ("missing", "missing_argument", "extra_forbidden", "unexpected_keyword_argument")
"""Problems whose value says nothing, or belongs to a field that does not exist: it may be a secret."""


def explain(error: ValueError, hidden: Collection[str] = ()) -> str:
    """The problems of up to three fields in one line, without the values of `hidden` fields."""
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False)
    lines = []
    for one in found[:3]:
        where = ".".join(str(part) for part in one["loc"])
        message = one["msg"][:1].lower() + one["msg"][1:]
        is_hidden = bool(hidden) and (not one["loc"] or one["loc"][0] in hidden)
        got = "" if one["type"] in _NAMES_ONLY or is_hidden else f", got {_short(one['input'])}"
        lines.append(f"{where + ': ' if where else ''}{message}{got}")
    if len(found) > 3:
        lines.append(f"and {len(found) - 3} more")
    return "; ".join(lines)


def _short(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

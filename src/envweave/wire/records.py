"""Dataclasses and enums that are generated from the JSON Schemas of a server."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from copy import copy
from enum import Enum, IntEnum, StrEnum
from functools import lru_cache
from typing import Any

from envweave.core.jsonable import to_json
from envweave.errors import NotJSONableError
from envweave.wire.objects import type_reader
from envweave.wire.readers import (
    ObjectReader,
    Reader,
    TupleReader,
    array_reader,
    items_reader,
    one_of,
    rank_of,
    same,
    values_reader,
    with_parts,
)


class Record:
    """Base of the dataclasses that are generated from a schema. Equal to any object or dict with the same content."""

    __hash__ = None  # type: ignore[assignment]
    __dataclass_fields__: dict[str, Any]

    def __init__(self, *values: Any, **named: Any) -> None:
        """Values by position or by name; those that are missing are None."""
        names = dict.fromkeys(self.__dataclass_fields__)
        self.__dict__.update(names | dict(zip(names, values, strict=False)) | named)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record | Mapping) and not _is_object(other):
            return NotImplemented
        try:
            return bool(to_json(self) == to_json(other))
        except NotJSONableError:
            return False

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> Any:
        return _rebuilt, (type(self).__name__, type(self).__doc__, self.__dict__)


def _is_object(value: object) -> bool:
    return not isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(value, "model_dump"))


@dataclasses.dataclass
class _AnyField:
    value: Any = None


@lru_cache(maxsize=1024)
def record_type(name: str, fields: tuple[str, ...], text: str | None = None) -> type[Record]:
    """The dataclass for data with these keys, in their order: fields that the schema does not know are kept."""
    (template,) = dataclasses.fields(_AnyField)
    own = {}
    for field in fields:  # `make_dataclass` takes no names such as "class" and "my-key"
        own[field] = copy(template)
        own[field].name = field
    return type(name, (Record,), {"__doc__": text, "__dataclass_fields__": own, "__match_args__": fields})


def _rebuilt(name: str, text: str | None, content: dict[str, Any]) -> Record:
    value = object.__new__(record_type(name, tuple(content), text))
    value.__dict__.update(content)
    return value


# Enums.


class EnumRecord(Enum):
    """Base of the enums that are generated from a schema. A member is equal to any enum's with its name and value."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Enum):
            return NotImplemented
        return (self.name, self.value) == (other.name, to_json(other.value))

    def __hash__(self) -> int:
        return hash(self.name)


class _TextEnum(str, Enum):  # noqa: UP042  (a StrEnum has another `str`)
    pass


class _NumberEnum(int, Enum):
    pass


_ENUMS: dict[str, Any] = {"StrEnum": StrEnum, "IntEnum": IntEnum, "str": _TextEnum, "int": _NumberEnum}
"""What to derive an enum from, by what the environment's own derives from."""


@lru_cache(maxsize=1024)
def enum_type(text: str) -> type[Enum]:
    """The enum that a JSON text describes: its name, base and members. Its members pickle."""
    name, base, members = json.loads(text)
    made: type[Enum] = _ENUMS.get(base, EnumRecord)(name, [tuple(each) for each in members], module=__name__)

    def reduce(self: Enum, proto: object) -> tuple[Any, ...]:  # noqa: ARG001
        return _member, (text, self.name)

    made.__reduce_ex__ = reduce  # type: ignore[method-assign]
    return made


def _member(text: str, name: str) -> Enum:
    return enum_type(text)[name]


# Readers.


def schema_reader(schema: dict[str, Any] | None) -> Reader | None:
    """How to read values that a JSON Schema describes; objects become dataclasses named by their `title`."""
    return _schema_reader(json.dumps(schema)) if schema else None


@lru_cache(maxsize=256)
def _schema_reader(text: str) -> Reader | None:
    schema = json.loads(text)
    return _SchemaReaders(schema).reader(schema)


class _SchemaReaders:
    """The readers of one schema, whose root holds the definitions that `$ref` points to."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._defined: dict[str, Reader | None] = {}

    def reader(self, schema: Any) -> Reader | None:
        if not isinstance(schema, dict):
            return None
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]))
        if "x-numpy" in schema:
            described = schema["x-numpy"]
            return array_reader(described.get("dtype"), scalar=described.get("shape") == [])
        if "x-enum" in schema:
            return _enum_reader(schema)
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if choices:
            return one_of([self.reader(each) for each in choices])
        if "prefixItems" in schema:
            return TupleReader([self.reader(each) for each in schema["prefixItems"]])
        kind = schema.get("type")
        if kind == "array":
            item = self.reader(schema.get("items"))
            return TupleReader((), item or same) if schema.get("x-tuple") else items_reader(item)
        return self._object(schema) if kind == "object" else None

    def _reference(self, name: str) -> Reader | None:
        if name not in self._defined:
            self._defined[name] = _Later(self._defined, name)  # it may contain itself
            target: Any = self._root
            for part in name.removeprefix("#/").split("/"):
                part = part.replace("~1", "/").replace("~0", "~")
                target = target.get(part, {}) if isinstance(target, dict) else {}
            self._defined[name] = self.reader(target)
        return self._defined[name]

    def _object(self, schema: dict[str, Any]) -> Reader | None:
        if "properties" not in schema or "title" not in schema:
            return values_reader(self.reader(schema.get("additionalProperties")))
        readers = {name: self.reader(part) for name, part in schema["properties"].items()}
        return _RecordReader(schema, {name: reader for name, reader in readers.items() if reader is not None})


class _Later:
    """The reader of a definition that is not complete yet."""

    def __init__(self, defined: dict[str, Reader | None], name: str) -> None:
        self._defined = defined
        self._name = name

    def rank(self, data: Any) -> int:
        return rank_of(self._defined[self._name] or same, data)

    def __call__(self, data: Any) -> Any:
        return (self._defined[self._name] or same)(data)


class _RecordReader(ObjectReader):
    def __init__(self, schema: dict[str, Any], nested: dict[str, Reader]) -> None:
        parts = schema["properties"]
        super().__init__(list(parts), schema.get("required", ()))
        self.constants = {name: [part["const"]] for name, part in parts.items() if "const" in part}
        self.constants |= {name: part["enum"] for name, part in parts.items() if "enum" in part}
        self._title = str(schema["title"])
        self._text: str | None = schema.get("description")
        self._is_dict = bool(schema.get("x-dict"))  # a TypedDict
        self._nested = nested
        self._last: tuple[tuple[str, ...] | None, type[Record]] = (None, Record)
        """The keys and the type of the last value: most values have the same."""

    def __call__(self, data: Any) -> Any:
        if not isinstance(data, dict) or not self.required <= data.keys():
            return data
        content = with_parts(data, self._nested) if self._nested else data
        if self._is_dict:
            return content
        keys, (known, cls) = tuple(data), self._last
        if keys != known:
            cls = record_type(self._title, keys, self._text)
            self._last = (keys, cls)
        value = object.__new__(cls)
        value.__dict__ = content
        return value


def _enum_reader(schema: dict[str, Any]) -> Reader | None:
    described = schema["x-enum"]
    values = schema.get("enum") or [schema.get("const")]
    members = list(zip(described["names"], values, strict=True))
    return type_reader(enum_type(json.dumps([schema.get("title", "Enum"), described["base"], members])))

"""Python objects of types that are known here, from the JSON data of a trusted server.

Nothing is validated. Data that does not have the expected shape is returned as it is.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from typing import Any

from envweave.core.arrays import array_dtype, is_array_type, is_scalar_type
from envweave.core.jsonable import to_json
from envweave.wire.readers import (
    ObjectReader,
    Reader,
    TupleReader,
    array_reader,
    items_reader,
    lenient,
    one_of,
    values_reader,
    with_parts,
)


def type_reader(type_: Any) -> Reader | None:
    """How to read values of a type; None if they are the data itself."""
    try:
        return _cached_reader(type_)
    except TypeError:  # a type that cannot be hashed, such as Annotated[int, []]
        return _new_reader(type_)


@cache
def _cached_reader(type_: Any) -> Reader | None:
    return _new_reader(type_)


def _new_reader(type_: Any) -> Reader | None:
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if is_array_type(type_):
        return array_reader(array_dtype(type_), scalar=is_scalar_type(type_))
    if origin is not None:
        return _generic_reader(origin, arguments)
    if hasattr(type_, "__supertype__"):  # NewType
        return type_reader(type_.__supertype__)
    if hasattr(type_, "__value__"):  # type Alias = …
        return type_reader(type_.__value__)
    if typing.is_typeddict(type_):
        return _TypedDictReader(type_)
    if not isinstance(type_, type):
        return None
    if issubclass(type_, Enum):
        return _EnumReader(type_)
    if dataclasses.is_dataclass(type_):
        return _DataclassReader(type_)
    if hasattr(type_, "model_validate"):
        return _ModelReader(type_)
    if issubclass(type_, tuple):
        return _NamedTupleReader(type_) if hasattr(type_, "_fields") else TupleReader(())
    return None


def _generic_reader(origin: Any, arguments: tuple[Any, ...]) -> Reader | None:
    if origin in (typing.Union, types.UnionType):
        return one_of([type_reader(each) for each in arguments if each is not type(None)])
    if origin is typing.Annotated:
        return type_reader(arguments[0])
    if hasattr(origin, "__value__"):  # an alias with parameters
        return type_reader(origin.__value__[arguments])
    if dataclasses.is_dataclass(origin):
        return _DataclassReader(origin, arguments)  # type: ignore[arg-type]
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return TupleReader((), type_reader(arguments[0]))
    if origin is tuple:
        return TupleReader([type_reader(each) for each in arguments])
    if isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
        return values_reader(type_reader(arguments[1]), type_reader(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Sequence) and arguments:
        return items_reader(type_reader(arguments[0]))
    return None


# Objects.


class _DataclassReader(ObjectReader):
    """Makes instances without `__init__`; `__post_init__` runs, and cannot change what the server sent.

    Keys that the class does not have choose a subclass that has them, else they become attributes.
    """

    def __init__(self, cls: type, arguments: tuple[Any, ...] = ()) -> None:
        self._cls = cls
        self._arguments = arguments
        self._fields = dataclasses.fields(cls)
        missing = dataclasses.MISSING
        without_default = [f.name for f in self._fields if f.init and f.default is f.default_factory is missing]
        super().__init__([f.name for f in self._fields], without_default)
        self._finish = getattr(cls, "__post_init__", None)
        self._prepared: list[tuple[str, Reader | None, dataclasses.Field[Any]]] = []

    def _prepare(self) -> None:
        """With the first value and not before: a type may contain itself."""
        hints = dict(_hints(self._cls))
        if self._arguments:
            values = dict(zip(self._cls.__parameters__, self._arguments, strict=False))  # type: ignore[attr-defined]
            hints = {name: _substituted(hint, values) for name, hint in hints.items()}
        self.constants = _constants(hints, self.names)
        self._prepared = [(f.name, type_reader(hints.get(f.name, Any)), f) for f in self._fields]

    def rank(self, data: Any) -> int:
        if not self._prepared:
            self._prepare()
        return super().rank(data)

    def __call__(self, data: Any) -> Any:
        if not self._prepared:
            self._prepare()
        if not isinstance(data, dict):
            return data
        if self._finish is None and len(data) == len(self._prepared):
            try:
                return self._exact(data)
            except KeyError:  # other keys than the fields
                pass
        if not self.required <= data.keys():
            return data
        known = data.keys() <= self.names
        if not known:
            subclass = _subclass_with(self._cls, data.keys())
            if subclass is not None:
                return type_reader(subclass)(data)  # type: ignore[misc]
        value: Any = object.__new__(self._cls)
        try:
            self._fill(value, data, {} if known else data)
        except AttributeError:  # the class has slots, which have no room for other keys
            return data
        return value

    def _exact(self, data: dict[str, Any]) -> Any:
        """The common case: all fields and no others."""
        value: Any = object.__new__(self._cls)
        put = object.__setattr__
        for name, reader, _ in self._prepared:
            each = data[name]
            put(value, name, each if reader is None else reader(each))
        return value

    def _fill(self, value: Any, data: dict[str, Any], others: dict[str, Any]) -> None:
        put = object.__setattr__
        found = {}
        for name, reader, field in self._prepared:
            if name in data:
                found[name] = data[name] if reader is None else reader(data[name])
            elif field.default is not dataclasses.MISSING:
                found[name] = field.default
            elif field.default_factory is not dataclasses.MISSING:
                found[name] = field.default_factory()
        for name, each in found.items():
            put(value, name, each)
        if self._finish is not None:
            with suppress(Exception):  # the author's code; it may want arguments of the constructor that are not kept
                self._finish(value)
            for name, each in found.items():
                if name in data:
                    put(value, name, each)
        for name in others.keys() - self.names:
            put(value, name, others[name])


def _subclass_with(cls: type, names: Any) -> type | None:
    """The subclass that has exactly these fields."""
    subclasses: list[Any] = cls.__subclasses__()
    for subclass in subclasses:
        own = {field.name for field in dataclasses.fields(subclass)} if dataclasses.is_dataclass(subclass) else ()
        found = subclass if own == names else _subclass_with(subclass, names)
        if found is not None:
            return found
    return None


def _hints(cls: type) -> Iterator[tuple[str, Any]]:
    """The hints of a class, without those that cannot be resolved."""
    for base in reversed(cls.__mro__):
        module = getattr(sys.modules.get(base.__module__), "__dict__", {})
        for name, hint in inspect.get_annotations(base).items():
            one = types.SimpleNamespace(__annotations__={name: hint})
            try:
                yield from typing.get_type_hints(one, module, {base.__name__: base, **vars(base)}).items()
            except (NameError, TypeError, AttributeError, SyntaxError):
                continue


def _substituted(hint: Any, values: dict[Any, Any]) -> Any:
    if hint in values:
        return values[hint]
    open_parameters = getattr(hint, "__parameters__", ())
    if isinstance(hint, type) or not open_parameters:
        return hint
    return hint[tuple(values.get(each, Any) for each in open_parameters)]


def _constants(hints: dict[str, Any], names: frozenset[str]) -> dict[str, Sequence[Any]]:
    return {
        name: to_json(typing.get_args(hint))
        for name, hint in hints.items()
        if name in names and typing.get_origin(hint) is typing.Literal
    }


class _ModelReader(ObjectReader):
    """Pydantic's models, which validate themselves."""

    def __init__(self, cls: Any) -> None:
        fields = cls.model_fields
        self._computed = frozenset(getattr(cls, "model_computed_fields", ()))
        names = [*fields, *self._computed]
        super().__init__(names, [name for name, field in fields.items() if field.is_required()])
        self.constants = _constants({name: field.annotation for name, field in fields.items()}, self.names)
        self._read = lenient(partial(cls.model_validate, strict=False, by_alias=True, by_name=True))

    def __call__(self, data: Any) -> Any:
        given = data
        if self._computed and isinstance(data, dict):
            given = {name: each for name, each in data.items() if name not in self._computed}
        read = self._read(given)
        return data if read is given else read


class _TypedDictReader(ObjectReader):
    """Dicts whose values have types."""

    def __init__(self, type_: Any) -> None:
        super().__init__(list(type_.__annotations__), list(type_.__required_keys__))
        self._type = type_
        self._readers: dict[str, Reader] | None = None

    def __call__(self, data: Any) -> Any:
        if self._readers is None:  # with the first value: a type may contain itself
            try:
                hints = typing.get_type_hints(self._type)
            except (NameError, TypeError):
                hints = {}
            readers = {name: type_reader(hint) for name, hint in hints.items()}
            self._readers = {name: reader for name, reader in readers.items() if reader is not None}
        return with_parts(data, self._readers) if self._readers and isinstance(data, dict) else data


class _EnumReader:
    def __init__(self, cls: type[Enum]) -> None:
        self._cls = cls

    def __call__(self, data: Any) -> Any:
        try:
            return self._cls(data)
        except (ValueError, TypeError):
            return next((each for each in self._cls if to_json(each.value) == data), data)


class _NamedTupleReader(TupleReader):
    def __init__(self, cls: Any) -> None:
        hints = dict(_hints(cls))
        super().__init__([type_reader(hints.get(name, Any)) for name in cls._fields])
        self._cls = cls

    def __call__(self, data: Any) -> Any:
        read = super().__call__(data)
        return self._cls._make(read) if read is not data and len(read) == len(self._readers) else data

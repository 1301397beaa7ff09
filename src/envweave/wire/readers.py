"""Parts of readers, which make Python values of the JSON data of a trusted server.

Nothing is validated. Data that does not have the expected shape is returned as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from envweave.core.arrays import as_array

Reader: TypeAlias = Callable[[Any], Any]


class ObjectReader(ABC):
    """Makes objects of dicts with certain keys."""

    def __init__(self, names: Sequence[str], required: Sequence[str]) -> None:
        self.names = frozenset(names)
        self.required = frozenset(required)
        self.constants: dict[str, Sequence[Any]] = {}
        """The fields that have one of a few values, which tell the types of a union apart."""

    def rank(self, data: Any) -> int:
        """How well the data fits: 0 if it does not."""
        if not isinstance(data, dict) or not self.required <= data.keys():
            return 0
        if any(name in data and data[name] not in allowed for name, allowed in self.constants.items()):
            return 0
        return 3 if data.keys() == self.names else 2

    @abstractmethod
    def __call__(self, data: Any) -> Any:
        """The object, or the data itself if it does not fit."""


def with_parts(data: dict[str, Any], readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The dict with some of its values read."""
    return {name: readers[name](value) if name in readers else value for name, value in data.items()}


# Lists and dicts of them.


class TupleReader:
    """Makes tuples of lists: with a reader for each element, or one for all."""

    def __init__(self, readers: Sequence[Reader | None], item: Reader | None = None) -> None:
        self._readers = list(readers)
        self._item = item

    def __call__(self, data: Any) -> Any:
        if not isinstance(data, list):
            return data
        readers = [self._item] * len(data) if self._item is not None else self._readers
        if len(readers) != len(data):
            return tuple(data)
        return tuple(each if read is None else read(each) for each, read in zip(data, readers, strict=True))


class _PartsReader:
    """Reads the elements of lists, or the values and perhaps the keys of dicts."""

    def __init__(self, kind: type, item: Reader | None, key: Reader | None = None) -> None:
        self._kind = kind
        self._item = item or same
        self._key = key

    def rank(self, data: Any) -> int:
        """As well as the first of the parts fits."""
        if not isinstance(data, self._kind):
            return 0
        parts: Any = data.values() if isinstance(data, dict) else data
        return min(1, next((rank_of(self._item, part) for part in parts), 1))

    def __call__(self, data: Any) -> Any:
        if not isinstance(data, self._kind):
            return data
        item, key = self._item, self._key or same
        parts: Any = data
        if self._kind is list:
            return [item(each) for each in parts]
        return {key(name): item(each) for name, each in parts.items()}


def items_reader(item: Reader | None) -> Reader | None:
    """A reader of lists; None if their elements are data."""
    return None if item is None else _PartsReader(list, item)


def values_reader(value: Reader | None, key: Reader | None = None) -> Reader | None:
    """A reader of dicts; None if their keys and values are data."""
    return None if value is key is None else _PartsReader(dict, value, key)


def one_of(readers: list[Reader | None]) -> Reader | None:
    """The reader whose type fits the data best, the first of several; None if there is no reader."""
    known = [reader for reader in readers if reader is not None]
    if not known:
        return None

    def read(data: Any) -> Any:
        if data is None:
            return None
        for reader in sorted(known, key=lambda each: -rank_of(each, data)) if len(known) > 1 else known:
            found = reader(data)
            if found is not data:
                return found
        return data

    return read


def rank_of(reader: Reader, data: Any) -> int:
    """How well the data fits the reader's type: 0 if it does not, 1 if the reader cannot tell."""
    rank: Callable[[Any], int] | None = getattr(reader, "rank", None)
    return 1 if rank is None else rank(data)


def lenient(make: Callable[[Any], Any]) -> Reader:
    """Makes a value, or returns the data if that fails."""

    def read(data: Any) -> Any:
        try:
            return make(data)
        except (ArithmeticError, ValueError, TypeError):
            return data

    return read


def array_reader(dtype: Any = None, *, scalar: bool = False) -> Reader:
    """Makes numpy arrays or scalars; without a dtype, numpy chooses it."""
    return lenient(lambda data: as_array(data, dtype)[()] if scalar else as_array(data, dtype))


def same(data: Any) -> Any:
    return data

"""Gymnasium spaces as JSON Schema, and arrays from JSON data.

Gymnasium is not imported: a space is recognised by the name and the package of its class.

Keywords beside those of JSON Schema, which other readers of a schema ignore:

    x-numpy      {"dtype": "float32", "shape": [4]}: an array; a size of null is free, shape [] is a numpy scalar
    x-tuple      true: the array is a tuple in Python
    x-graph      true: the array is [nodes, edges, edge_links], Gymnasium's `GraphInstance`
    x-stacked    true: all arrays that stand for a batch below this have the same length

The first two are only in the schemas of observations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from math import isfinite
from typing import Any, TypeAlias

from envweave.core.arrays import has_numpy, to_array
from envweave.core.lookup import load
from envweave.errors import EnvWeaveError

ValueReader: TypeAlias = Callable[[Any], Any]

ARRAY_KINDS = ("Box", "Discrete", "MultiBinary", "MultiDiscrete")

_KINDS = frozenset({*ARRAY_KINDS, "Dict", "Graph", "OneOf", "Sequence", "Text", "Tuple"})
_MOST_BOUNDS = 64
"""The schema of an array up to this size has the bounds of each element, that of a larger one the widest bounds."""


def base_class(space: Any) -> Any:
    """The class of Gymnasium or gym that the space is an instance of; None for another kind of space."""
    for cls in type(space).__mro__:
        if cls.__name__ in _KINDS and cls.__module__.partition(".")[0] in ("gymnasium", "gym"):
            return cls
    return None


def kind_of(space: Any) -> str:
    """The name of that class, or an empty string."""
    return getattr(base_class(space), "__name__", "")


def is_stacked(space: Any) -> bool:
    """Whether the items of a `Sequence` are batched into one value."""
    return bool(getattr(space, "stack", False))  # gym has no such attribute


def space_schema(space: Any) -> dict[str, Any] | None:
    """The JSON Schema of the JSON form of a space's members, or None for a kind of space that has none."""
    return _Description(annotated=False).of(space)


def observation_schema(space: Any) -> dict[str, Any]:
    """The same with `x-numpy` and `x-tuple`, for `array_reader`; empty for a kind of space that has no schema."""
    return _Description(annotated=True).of(space) or {}


class _Description:
    """Makes the schema of a space, with or without the annotations for `array_reader`."""

    def __init__(self, *, annotated: bool) -> None:
        self._annotated = annotated

    def of(self, space: Any) -> dict[str, Any] | None:
        kind = kind_of(space)
        if kind in ARRAY_KINDS:
            return self._array(_ARRAY_SCHEMAS[kind](space), space, space.shape)
        if kind == "Text":
            return _text(space)
        if kind == "Dict":
            return _object({key: self.of(part) or {} for key, part in space.spaces.items()})
        if kind == "Tuple":
            return self._tuple([self.of(part) or {} for part in space.spaces])
        if kind == "OneOf":
            return {"oneOf": [self._choice(number, part) for number, part in enumerate(space.spaces)]}
        if kind == "Sequence" and is_stacked(space):
            mark = {"x-stacked": True} if kind_of(space.feature_space) in ("Dict", "Tuple") else {}
            return {**self._batch(space.feature_space), **mark}
        if kind == "Sequence":
            return self._tuple(items=self.of(space.feature_space) or {})
        if kind == "Graph":
            return self._graph(space)
        return None

    def _batch(self, space: Any) -> dict[str, Any]:
        """Several members in one value, as Gymnasium batches them."""
        kind = kind_of(space)
        if kind in ARRAY_KINDS:
            items = {"type": "array", "items": _ARRAY_SCHEMAS[kind](space)}
            return self._array(items, space, (None, *space.shape))
        if kind == "Dict":
            return _object({key: self._batch(part) for key, part in space.spaces.items()})
        if kind == "Tuple":
            return self._tuple([self._batch(part) for part in space.spaces])
        return self._tuple(items=self.of(space) or {})

    def _array(self, schema: dict[str, Any], space: Any, shape: tuple[int | None, ...]) -> dict[str, Any]:
        sizes = [None if size is None else int(size) for size in shape]
        return {**schema, "x-numpy": {"dtype": str(space.dtype), "shape": sizes}} if self._annotated else schema

    def _tuple(self, parts: list[dict[str, Any]] | None = None, **rest: Any) -> dict[str, Any]:
        fixed = {} if parts is None else _prefixed(parts)
        return {"type": "array", **fixed, **rest, **({"x-tuple": True} if self._annotated else {})}

    def _choice(self, number: int, space: Any) -> dict[str, Any]:
        index: dict[str, Any] = {"const": number}
        if self._annotated:
            index["x-numpy"] = {"dtype": "int64", "shape": []}
        return self._tuple([index, self.of(space) or {}])

    def _graph(self, space: Any) -> dict[str, Any]:
        nodes: dict[str, Any] = self._batch(space.node_space)
        edges: dict[str, Any] = {"type": "null"}
        links: dict[str, Any] = {"type": "null"}
        if space.edge_space is not None:
            edges = _or_null(self._batch(space.edge_space))
            links = _or_null({"type": "array", "items": _nested({"type": "integer", "minimum": 0}, (2,))})
            links |= {"x-numpy": {"dtype": "int32", "shape": [None, 2]}} if self._annotated else {}
        return {"type": "array", **_prefixed([nodes, edges, links]), "x-graph": True}


def _discrete(space: Any) -> dict[str, Any]:
    low = int(getattr(space, "start", 0))
    return _number("integer", low, low + int(space.n) - 1)


def _box(space: Any) -> dict[str, Any]:
    kind = {"b": "boolean", "f": "number"}.get(space.dtype.kind, "integer")
    return _bounded(kind, space.low, space.high)


def _multi_discrete(space: Any) -> dict[str, Any]:
    start = getattr(space, "start", 0) + 0 * space.nvec
    return _bounded("integer", start, start + (space.nvec - 1))


_ARRAY_SCHEMAS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiBinary": lambda space: _nested(_number("integer", 0, 1), space.shape),
    "MultiDiscrete": _multi_discrete,
}


def _bounded(kind: str, low: Any, high: Any) -> dict[str, Any]:
    """An array of numbers between two arrays; elements with equal bounds have one schema."""
    if low.size == 0:
        return _nested({"type": kind}, low.shape)
    if low.ndim == 0:
        return _number(kind, low.item(), high.item())
    if low.size > _MOST_BOUNDS or (low.min() == low.max() and high.min() == high.max()):
        return _nested(_number(kind, low.min().item(), high.max().item()), low.shape)
    parts = [_bounded(kind, *bounds) for bounds in zip(low, high, strict=True)]
    return {"type": "array", **_prefixed(parts)}


def _number(kind: str, low: Any, high: Any) -> dict[str, Any]:
    if kind == "boolean":
        return {"type": kind}
    least = {"minimum": low} if isfinite(low) else {}
    return {"type": kind, **least, **({"maximum": high} if isfinite(high) else {})}


def _text(space: Any) -> dict[str, Any]:
    size = {"minLength": int(space.min_length), "maxLength": int(space.max_length)}
    allowed = _ranges(sorted(map(ord, space.character_set)))
    return {"type": "string", **size, **({"pattern": f"^[{allowed}]*$"} if allowed else {})}


def _ranges(codes: list[int]) -> str:
    """Characters, given by their code points, in the syntax of a character class."""
    found = ""
    for _, group in groupby(enumerate(codes), lambda numbered: numbered[1] - numbered[0]):
        run = [code for _, code in group]
        found += _escaped(run[0]) + (f"-{_escaped(run[-1])}" if len(run) > 1 else "")
    return found


def _escaped(code: int) -> str:
    one = chr(code)
    return one if one.isalnum() or (code > 0x7F and one.isprintable()) else f"\\u{code:04x}"


def _object(properties: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _prefixed(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}


def _nested(item: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    for size in reversed(shape):
        item = {"type": "array", "items": item, "minItems": int(size), "maxItems": int(size)}
    return item


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


# Arrays from JSON data.

_MISFIT = (KeyError, OverflowError, TypeError, ValueError)
"""What a reader raises for data that does not fit its schema."""


def array_reader(schema: dict[str, Any] | None) -> ValueReader | None:
    """Compile a schema into a function that makes the native value of JSON data.

    Returns None if the schema has no arrays or tuples, so that data is native as it is, and if numpy is not installed.
    The function does not raise: data that does not fit is returned unchanged.
    """
    try:
        read = _reader(schema)
    except (*_MISFIT, AttributeError):  # a schema from elsewhere, with other meanings of these keywords
        return None
    return partial(_read_or_keep, read) if read is not None and has_numpy() else None


def _read_or_keep(read: ValueReader, data: Any) -> Any:
    try:
        return read(data)
    except _MISFIT:
        return data


def _reader(schema: Any) -> ValueReader | None:
    if not isinstance(schema, dict):
        return None
    if "x-numpy" in schema:
        return _array_reader(schema)
    if "oneOf" in schema:
        choices = [_reader(choice) for choice in schema["oneOf"]]
        return partial(_read_first, [read or _same for read in choices]) if any(choices) else None
    read = _list_reader(schema) or _dict_reader(schema)
    if read is not None and "null" in schema.get("type", ()):
        return partial(_read_unless_none, read)
    return read


def _array_reader(schema: dict[str, Any]) -> ValueReader:
    dtype, shape = schema["x-numpy"]["dtype"], tuple(schema["x-numpy"]["shape"])
    read = partial(to_array, dtype=dtype, shape=shape)
    if "const" in schema:
        return lambda data: read(_equal(data, schema["const"]))[()]
    if not shape:
        return lambda data: read(data)[()]
    return partial(_read_unless_none, read) if "null" in schema.get("type", ()) else read


def _list_reader(schema: dict[str, Any]) -> ValueReader | None:
    is_tuple = schema.get("x-tuple", False)
    make: Callable[..., Any] = tuple if is_tuple else list
    if "prefixItems" in schema:
        parts = [_reader(part) for part in schema["prefixItems"]]
        readers = [read or _same for read in parts]
        if schema.get("x-graph"):
            graph = _graph_class()
            return lambda data: graph(*_read_each(readers, _list(data)))
        if is_tuple or any(parts):
            return lambda data: make(_read_each(readers, _list(data)))
        return None
    read = _reader(schema.get("items"))
    if is_tuple or read is not None:
        return lambda data: make(map(read or _same, _list(data)))
    return None


def _dict_reader(schema: dict[str, Any]) -> ValueReader | None:
    readers = {key: read for key, part in schema.get("properties", {}).items() if (read := _reader(part))}
    required = frozenset(schema.get("required", ()))

    def read_dict(data: Any) -> dict[str, Any]:
        if not isinstance(data, dict) or not required <= data.keys():
            raise ValueError("a key is missing")
        return {key: readers.get(key, _same)(value) for key, value in data.items()}

    return read_dict if readers else None


def _graph_class() -> Any:
    """Gymnasium's class of graphs, or a plain tuple if Gymnasium is not installed."""
    try:
        return load("gymnasium.spaces:GraphInstance")
    except EnvWeaveError:
        return lambda *parts: parts


def _read_each(readers: list[ValueReader], data: list[Any]) -> list[Any]:
    return [read(part) for read, part in zip(readers, data, strict=True)]


def _read_first(readers: list[ValueReader], data: Any) -> Any:
    for read in readers:
        try:
            return read(data)
        except _MISFIT:
            pass
    raise ValueError("none of the choices fits")


def _read_unless_none(read: ValueReader, data: Any) -> Any:
    return None if data is None else read(data)


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f"a {type(data).__name__}, not a list")
    return data


def _equal(data: Any, wanted: Any) -> Any:
    if data != wanted:
        raise ValueError(f"{data!r}, not {wanted!r}")
    return data


def _same(data: Any) -> Any:
    return data

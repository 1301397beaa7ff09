"""Actions as members of a Gymnasium space.

An action is accepted in its native form and in its JSON form, which is what `to_json` makes of the native one:

    Box, MultiBinary, MultiDiscrete      nested lists
    Discrete, Text                       a whole number, a string
    Dict, Tuple                          an object, a list
    Sequence                             a list; if it is stacked, the form of one item with lists as leaves
    OneOf                                [index, value]
    Graph                                [nodes, edges, edge_links]; the last two may be null
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, TypeAlias

from envweave.core.arrays import all_finite, to_array
from envweave.core.spaces import ARRAY_KINDS, ValueReader, base_class, is_stacked, kind_of
from envweave.errors import InvalidActionError

BatchValueReader: TypeAlias = Callable[[Any], tuple[Any, int]]
"""Makes several members of one value, as Gymnasium batches them. Returns their number too."""

_MOST_AXES = 8
"""A list nested deeper is not taken for an array of one element; it might contain itself."""


def space_check(space: Any) -> Callable[[Any], Any]:
    """A function that returns an action as a member of the space, or raises `InvalidActionError`.

    Numbers are cast to the dtype of the space if no value changes, apart from the rounding of floats. A Box accepts
    finite values beyond its bounds, as `step` of a Gymnasium environment does; it refuses NaN.
    """
    read = _reader(space)
    if kind_of(space) == "Discrete":
        return read

    def check(action: Any) -> Any:
        try:
            return read(action)
        except Exception as error:  # whatever the space, or the class of the action, makes of a wrong value
            reason = error.message if isinstance(error, InvalidActionError) else str(error)
            text = f"action {_short(action)} is not in {space}"
            hint = "env.action_schema() shows what is"
            raise InvalidActionError(f"{text}: {reason}" if reason else text, hint) from None

    return check


@cache
def _discrete_reader(low: int, count: int) -> ValueReader:
    """One function for all equal spaces: a vector of 256 environments has it at hand instead of 256 copies."""
    high = low + count

    def read(action: Any) -> Any:
        if action.__class__ is int and low <= action < high:
            return action
        number = _whole_number(action)
        if number is not None and low <= number < high:
            return number
        raise InvalidActionError(f"action {_short(action)} is not one of {low} to {high - 1}", "use a whole number")

    return read


def _whole_number(value: Any) -> Any:
    """An int, an `IntEnum` or a numpy integer unchanged; an int for an array of one element or its JSON form.

    None for any other value.
    """
    for _ in range(_MOST_AXES):
        if not isinstance(value, list) or len(value) != 1:
            break
        value = value[0]
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if getattr(getattr(value, "dtype", None), "kind", "") not in ("i", "u") or value.size != 1:
        return None
    return value.item() if hasattr(value, "__setitem__") else value  # arrays have it, scalars do not


def _reader(space: Any) -> ValueReader:
    """Makes a member of its native or JSON form. Raises an exception of any class for another value."""
    base, read = base_class(space), _reader_by_kind(space)
    if base is None or getattr(type(space), "contains", None) is getattr(base, "contains", None):
        return read
    return lambda value: _contained(space, read(value))  # a subclass with a rule of its own


def _reader_by_kind(space: Any) -> ValueReader:
    kind = kind_of(space)
    if kind == "Discrete":
        return _discrete_reader(int(getattr(space, "start", 0)), int(space.n))
    if kind in ARRAY_KINDS:
        return partial(_read_array, space, _range_check(space), space.shape)
    if kind == "Dict":
        return partial(_read_dict, {key: _reader(part) for key, part in space.spaces.items()})
    if kind == "Tuple":
        return partial(_read_tuple, [_reader(part) for part in space.spaces])
    if kind == "OneOf":
        return partial(_read_choice, [_reader(part) for part in space.spaces])
    if kind == "Sequence" and is_stacked(space):
        read_batch = _batch_reader(space.feature_space)
        return lambda value: read_batch(value)[0]
    if kind == "Sequence":
        return partial(_read_items, _reader(space.feature_space))
    if kind == "Graph":
        edges = None if space.edge_space is None else _batch_reader(space.edge_space)
        return partial(_read_graph, _graph_class(space), _batch_reader(space.node_space), edges)
    return partial(_contained, space)


def _batch_reader(space: Any) -> BatchValueReader:
    kind = kind_of(space)
    if kind in ARRAY_KINDS:
        read_array = partial(_read_array, space, _range_check(space), (None, *space.shape))
        return lambda value: (array := read_array(value), len(array))
    if kind == "Dict":
        return partial(_read_dict_batch, {key: _batch_reader(part) for key, part in space.spaces.items()})
    if kind == "Tuple":
        return partial(_read_tuple_batch, [_batch_reader(part) for part in space.spaces])
    read_items = partial(_read_items, _reader(space))
    return lambda value: (items := read_items(value), len(items))


def _range_check(space: Any) -> Callable[[Any], bool]:
    """Whether all values of an array, or of a batch of arrays, are legal."""
    kind = kind_of(space)
    if kind == "Box":
        return partial(_finite_or_within, space.low, space.high)
    if kind == "MultiBinary":
        return partial(_within, 0, 1)
    low, count = getattr(space, "start", 0), space.n if kind == "Discrete" else space.nvec
    return partial(_within, low, low + (count - 1))


def _within(low: Any, high: Any, array: Any) -> bool:
    return bool(((array >= low) & (array <= high)).all())


def _finite_or_within(low: Any, high: Any, array: Any) -> bool:
    return all_finite(array) or _within(low, high, array)


def _read_array(space: Any, in_range: Callable[[Any], bool], shape: tuple[int | None, ...], value: Any) -> Any:
    try:
        array = to_array(value, space.dtype, shape)
    except ValueError:
        if getattr(value, "shape", None) == shape and space.contains(value):  # 0.0 and 1.0 in a MultiBinary
            return value
        raise
    if not in_range(array):
        raise ValueError("not all values are finite" if kind_of(space) == "Box" else "not all values are in range")
    return array


def _read_dict(readers: Mapping[str, ValueReader], value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or value.keys() != readers.keys():
        raise ValueError(f"the keys must be {', '.join(map(str, readers))}")
    return {key: _read_part(key, read, value[key]) for key, read in readers.items()}


def _read_tuple(readers: list[ValueReader], value: Any) -> tuple[Any, ...]:
    items = _listed(value, len(readers))
    return tuple(_read_part(number, read, item) for number, (read, item) in enumerate(zip(readers, items, strict=True)))


def _read_items(read: ValueReader, value: Any) -> tuple[Any, ...]:
    return tuple(_read_part(number, read, item) for number, item in enumerate(_listed(value)))


def _read_choice(readers: list[ValueReader], value: Any) -> tuple[int, Any]:
    index, chosen = _listed(value, 2)
    number = int(_discrete_reader(0, len(readers))(index))
    return number, _read_part(number, readers[number], chosen)


def _read_dict_batch(readers: Mapping[str, BatchValueReader], value: Any) -> tuple[dict[str, Any], int]:
    parts = _read_dict(readers, value)
    return {key: part for key, (part, _) in parts.items()}, _common_count(count for _, count in parts.values())


def _read_tuple_batch(readers: list[BatchValueReader], value: Any) -> tuple[tuple[Any, ...], int]:
    parts = _read_tuple(readers, value)
    return tuple(part for part, _ in parts), _common_count(count for _, count in parts)


def _read_graph(
    make: Callable[..., Any], read_nodes: BatchValueReader, read_edges: BatchValueReader | None, value: Any
) -> Any:
    nodes, edges, links = _listed(value, 3)
    nodes, node_count = _read_part("nodes", read_nodes, nodes)
    if edges is None and links is None:
        return make(nodes, None, None)
    if read_edges is None:
        raise ValueError("a graph of this space has no edges")
    edges, edge_count = _read_part("edges", read_edges, edges)
    links = _read_part("edge_links", partial(to_array, dtype="int32", shape=(edge_count, 2)), links)
    if not _within(0, node_count - 1, links):
        raise ValueError(f"edge_links: there are {node_count} nodes")
    return make(nodes, edges, links)


def _graph_class(space: Any) -> Any:
    module: Any = sys.modules[base_class(space).__module__]  # beside the space, in any version
    return module.GraphInstance


def _contained(space: Any, value: Any) -> Any:
    if not space.contains(value):
        raise ValueError("")
    return value


def _read_part(name: Any, read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except Exception as error:  # as in `space_check`, which tells the name
        reason = error.message if isinstance(error, InvalidActionError) else str(error)
        raise ValueError(f"{name}: {reason}" if reason else f"{name}: {_short(value)}") from None


def _listed(value: Any, size: int | None = None) -> list[Any]:
    if not isinstance(value, list | tuple) and not getattr(value, "shape", ()):  # an array is iterated over too
        raise TypeError(f"{_short(value)} is not a list")
    items = list(value)
    if size is not None and len(items) != size:
        raise ValueError(f"there are {len(items)} items, not {size}")
    return items


def _common_count(counts: Iterable[int]) -> int:
    different = set(counts)
    if len(different) > 1:
        raise ValueError(f"the parts have different lengths: {', '.join(map(str, sorted(different)))}")
    return different.pop() if different else 0


def _short(value: Any, limit: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

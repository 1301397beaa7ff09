"""Make JSON data of what crosses a boundary, and name the field that cannot cross."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Any, TypeAlias

from envweave.errors import NotJSONableError, UsageError

_DEEPEST = 64

_LEAVES = frozenset({str, int, bool, type(None)})
"""Exact types that are JSON as they are."""

_DATACLASSES: dict[type, tuple[str, ...]] = {}
"""The dataclasses met so far, with the names of their fields."""

_Path: TypeAlias = "str | tuple[_Path, str]"
"""Where a value stands: written out only if it has to be named."""


def to_json(value: Any, *, where: str = "value") -> Any:
    """JSON data equal in meaning to the value; tuples become lists, arrays nested lists.

    Raises `NotJSONableError` with the path of the first part that has no JSON form: a set, bytes, NaN, an object of no
    known kind, a key that is not text.
    """
    return _walk(value, where, 0)


def to_sendable(value: Any, where: str, refusal: type[UsageError] = UsageError) -> Any:
    """JSON data of what a caller passes. A value without a JSON form is the caller's mistake: `refusal` is raised."""
    try:
        return to_json(value, where=where)
    except NotJSONableError as error:
        raise refusal(f"cannot be sent: {error.message}", error.hint) from None


def _walk(value: Any, path: _Path, depth: int) -> Any:
    cls = value.__class__
    if cls in _LEAVES:
        return value
    if cls is dict and depth < _DEEPEST:
        found = {}
        for key, inner in value.items():
            if key.__class__ is not str:
                key = _key(key, path)
            found[key] = inner if inner.__class__ in _LEAVES else _walk(inner, (path, key), depth + 1)
        return found
    if cls in _DATACLASSES and depth < _DEEPEST:
        return _walk_fields(value, path, depth)
    if cls is float:
        return value if isfinite(value) else _refuse(f"is {value}", path, "JSON has finite numbers only: use None")
    return _walk_other(value, path, depth)


def _walk_other(value: Any, path: _Path, depth: int) -> Any:
    if isinstance(value, Enum):
        return _walk(value.value, path, depth)
    for base in (str, int, float):  # their subclasses
        if isinstance(value, base):
            return _walk(base(value), path, depth)
    if depth >= _DEEPEST:
        _refuse(f"is nested deeper than {_DEEPEST} levels", _text(path)[:80] + "…", "does it contain itself?")
    if isinstance(value, list | tuple):
        return [_walk(inner, (path, f"[{number}]"), depth + 1) for number, inner in enumerate(value)]
    if isinstance(value, Mapping):
        return _walk(dict(value), path, depth)
    if not isinstance(value, type):
        if dataclasses.is_dataclass(value):
            return _walk_fields(value, path, depth)
        if callable(getattr(value, "model_dump", None)):  # pydantic's models
            return _walk(_dumped(value), path, depth + 1)
        for method in ("tolist", "item"):  # arrays and scalars of numpy and torch
            if callable(getattr(value, method, None)):
                return _walk(getattr(value, method)(), path, depth + 1)
    return _refuse(f"is a {type(value).__name__}, which has no JSON form", path, "use dicts, lists and text")


def _dumped(model: Any) -> Any:
    """The data of a pydantic model; its fields as they are if pydantic cannot convert one, such as an array."""
    try:
        return model.model_dump(mode="json")
    except Exception:  # whatever a serializer of the author's raises
        return dict(model)


def _walk_fields(value: Any, path: _Path, depth: int) -> dict[str, Any]:
    cls = value.__class__
    names = _DATACLASSES.get(cls)
    if names is None:
        names = _DATACLASSES[cls] = tuple(field.name for field in dataclasses.fields(cls))
    found = {}
    for name in names:
        inner = getattr(value, name)
        found[name] = inner if inner.__class__ in _LEAVES else _walk(inner, (path, name), depth + 1)
    return found


def _key(key: Any, path: _Path) -> str:
    if isinstance(key, str):
        return str.__str__(key)  # `str` of an enum's member is its name
    return _refuse(f"has the key {key!r}, which is not a string", path, "JSON has string keys only")  # type: ignore[no-any-return]


def _refuse(problem: str, path: _Path, hint: str) -> Any:
    raise NotJSONableError(f"{_text(path)} {problem}", hint)


def _text(path: _Path) -> str:
    if isinstance(path, str):
        return path
    outer, part = path
    return f"{_text(outer)}{part if part.startswith('[') else '.' + part}"

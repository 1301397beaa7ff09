"""Make JSON data of what crosses a boundary, and name the field that cannot cross."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Any

from envweave.errors import NotJSONableError

_DEEPEST = 64


def to_json(value: Any, *, where: str = "value", _depth: int = 0) -> Any:
    """JSON data equal in meaning to the value; tuples become lists, arrays nested lists.

    Raises `NotJSONableError` with the path of the first part that has no JSON form: a set, bytes, NaN, an object of no
    known kind, a key that is not text.
    """
    if value is None or value is True or value is False or isinstance(value, str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return to_json(value.value, where=where, _depth=_depth)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise NotJSONableError(f"{where} is {value}", "JSON has finite numbers only: use None")
        return float(value)
    if _depth > _DEEPEST:
        raise NotJSONableError(f"{where[:80]}… is nested deeper than {_DEEPEST} levels", "does it contain itself?")
    if isinstance(value, Mapping):
        return {_key(key, where): to_json(v, where=f"{where}.{key}", _depth=_depth + 1) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v, where=f"{where}[{i}]", _depth=_depth + 1) for i, v in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: to_json(v, where=f"{where}.{name}", _depth=_depth + 1) for name, v in parts}
    for method in ("model_dump", "tolist", "item"):  # pydantic models; arrays and scalars of numpy and torch
        convert = getattr(value, method, None)
        if callable(convert) and not isinstance(value, type):
            return to_json(convert(), where=where, _depth=_depth + 1)
    raise NotJSONableError(f"{where} is a {type(value).__name__}, which has no JSON form", "use dicts, lists and text")


def _key(key: Any, where: str) -> str:
    if isinstance(key, str):
        return key
    raise NotJSONableError(f"{where} has the key {key!r}, which is not a string", "JSON has string keys only")

"""Values of the session, made fit to cross: as data where they are JSON, else as a `repr` of bounded size."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable
from math import isfinite
from typing import Any

_DEEPEST = 64


class _Large(Exception):  # noqa: N818
    pass


def portray(value: Any, limit: int) -> dict[str, Any]:
    """`{"data": …}` or `{"repr": …}`, with `"cut": True` where the limit took something away."""
    try:
        if _weigh(value, limit, 0) >= 0:
            return {"data": value}
        text, cut = bounded_repr(value, limit)
    except _Large:
        text, _ = bounded_repr(value, limit)
        cut = True
    return {"repr": text, "cut": True} if cut else {"repr": text}


def _weigh(value: Any, left: int, depth: int) -> int:
    """What is left of the budget after this value, or -1 if it is no data. Only exact types are: a subclass may lie."""
    kind = type(value)
    if value is None or kind is bool:
        left -= 5
    elif kind is str:
        left -= len(value) + 2
    elif kind is int:
        left -= value.bit_length() // 3 + 1
        if value.bit_length() > 14_000:  # more digits than Python writes
            return -1
    elif kind is float:
        if not isfinite(value):
            return -1
        left -= 8
    elif kind in (list, tuple, dict):
        if depth == _DEEPEST:
            return -1
        for key, inner in value.items() if kind is dict else ((None, item) for item in value):
            if kind is dict:
                if type(key) is not str:
                    return -1
                left -= len(key) + 4
            left = _weigh(inner, left - 1, depth + 1)
            if left < 0:
                return -1
    else:
        return -1
    if left < 0:
        raise _Large
    return left


def bounded_repr(value: Any, limit: int) -> tuple[str, bool]:
    """What `repr` says, not longer than the limit, and whether something was cut. Never raises but for an interrupt."""
    shorter = reprlib.Repr()
    shorter.maxlevel = 8
    shorter.maxstring = shorter.maxother = shorter.maxlong = 4 * limit  # what it takes away leaves more than the limit
    few = max(6, limit // 3 + 1)
    shorter.maxlist = shorter.maxtuple = shorter.maxset = shorter.maxfrozenset = shorter.maxdict = few
    shorter.maxdeque = shorter.maxarray = few
    try:
        text = shorter.repr(value)
        if not isinstance(text, str):
            raise TypeError
        text = str.__str__(text)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # a __repr__ may raise whatever it likes
        return f"<{type_name(value)} whose repr raises {type_name(error)}>", False
    if len(text) <= limit:
        return text, False
    return shorten(text, limit), True


def within(limit: int, values: dict[str, Any], tell: Callable[[Any], str]) -> dict[str, str]:
    """What there is to tell of each value by name, as many of them as fit into so many bytes of JSON."""
    told: dict[str, str] = {}
    for name, value in values.items():
        text = tell(value)
        limit -= len(json.dumps((name, text)))
        if limit < 0:
            break
        told[name] = text
    return told


def type_name(value: Any) -> str:
    """The name of a value's type, whatever its metaclass says of it."""
    return str(type.__dict__["__name__"].__get__(type(value)))


def shorten(text: str, limit: int) -> str:
    """Head and tail of a text, with a word on what was cut between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… [{len(text) - 2 * half} characters cut] …\n{text[len(text) - half :]}"

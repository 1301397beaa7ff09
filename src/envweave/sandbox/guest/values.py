"""Values of the session, made fit to cross: as data where they are JSON, else as a `repr` of bounded size."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Callable
from math import isfinite
from typing import Any

_DEEPEST = 64
_LEVELS = 8
_DIGITS = 100_000
"""Of a whole number that is written out, where Python by itself stops at 4300."""


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
        left -= _digits(value)
        if left >= 0 and value.bit_length() > 14_000:  # more digits than Python writes
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


class _Short(reprlib.Repr):
    """A `repr` that ends when there is enough of it, however much a value holds."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.maxlevel = _LEVELS
        self.maxstring = self.maxother = self.maxlong = 4 * limit  # what it takes away leaves more than the limit
        few = max(6, limit // 3 + 1)
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = few
        self.maxdeque = self.maxarray = few
        self._left = 2 * (_LEVELS + 1) * limit  # a text is counted once for each level that it lies in
        self.all_digits = False

    def repr1(self, value: Any, level: int) -> str:
        if self._left < 0:
            return "..."
        text = super().repr1(value, level)
        self._left -= len(text) + 1
        return text

    def repr_int(self, value: int, level: int) -> str:
        try:
            return repr(value)
        except ValueError:
            if not self.all_digits:
                raise
            return f"<int of about {_digits(value)} digits>"

    def repr_instance(self, value: Any, level: int) -> str:
        try:
            return str.__str__(repr(value))
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # a __repr__ may raise whatever it likes
            if isinstance(error, ValueError) and not self.all_digits:  # of a Fraction, perhaps
                raise
            return f"<{type_name(value)} whose repr raises {type_name(error)}>"


def bounded_repr(value: Any, limit: int) -> tuple[str, bool]:
    """What `repr` says, not longer than the limit, and whether something was cut. Never raises but for an interrupt."""
    try:
        try:
            text = _Short(limit).repr(value)
        except ValueError:  # a number of more digits than Python writes, perhaps
            text = _with_all_digits(value, limit)
        if not isinstance(text, str):
            raise TypeError
        text = str.__str__(text)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # as above
        return f"<{type_name(value)} whose repr raises {type_name(error)}>", False
    if len(text) <= limit:
        return text, False
    return shorten(text, limit), True


def _with_all_digits(value: Any, limit: int) -> str:
    """Only in a worker: what comes to the host has come as JSON, and so with few digits."""
    shorter = _Short(limit)
    shorter.all_digits = True
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(max(before, min(limit, _DIGITS)))
    try:
        return shorter.repr(value)
    finally:
        sys.set_int_max_str_digits(before)


def _digits(value: int) -> int:
    """How many it has, or one more."""
    return value.bit_length() * 30_103 // 100_000 + 1


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

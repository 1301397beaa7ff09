r"""Read an answer and hold it against the expected one.

In a text, the answer is what `\boxed{…}` holds, else what follows the last `answer is`, `answer:`, `####` or `=`, else
all of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, DecimalException
from fractions import Fraction
from math import hypot, isfinite
from typing import Any

from envweave.rewards.numerals import EXACT, Number, plain, read_numeral

_MARK = re.compile(r"answer ?(?:is\b|:|=)|####|(?<![<>!])=", re.IGNORECASE)
_LISTED = re.compile(r"[,;] |\b(?:and|or)\b")  # `x = 1, y = 2` marks no answer; `x = 6 * 7 = 42` does
_SMALL = Decimal("1e-9")
_LARGEST_BITS = 40_000  # of a whole number that becomes a decimal one, which takes quadratic time


def read_number(answer: Any, *, words: bool = True) -> Number:
    """The number that a value is, or that a text says. Raises `ValueError` with the reason if there is none."""
    if callable(getattr(answer, "tolist", None)):  # scalars of numpy and torch
        answer = answer.tolist()
    if isinstance(answer, str):
        return _number_in(answer, words=words)
    if isinstance(answer, bool):
        raise ValueError("a truth value, not a number")
    if isinstance(answer, int):
        return Number(int(answer), whole=True)
    if isinstance(answer, float) and isfinite(answer):
        return Number(Decimal(repr(float(answer))))  # 0.1 means 0.1
    if isinstance(answer, complex) and isfinite(answer.real) and isfinite(answer.imag):
        return Number(answer)
    if isinstance(answer, Fraction):
        return Number(EXACT.divide(Decimal(answer.numerator), Decimal(answer.denominator)))
    if isinstance(answer, Decimal) and answer.is_finite():
        return Number(answer)
    raise ValueError(f"a {type(answer).__name__}, not a finite number")


def read_list(answer: Any) -> list[Number]:
    """The numbers that a list holds, or that a text lists. Raises `ValueError` with the reason if there are none."""
    if isinstance(answer, str):
        text = plain(answer)
        start, end = text.find("["), text.rfind("]")
        text = text[start + 1 : end] if 0 <= start < end else answer_part(text)
        text = text.strip("() ").rstrip(",;")
        separator = next((mark for mark in ",;" if mark in text), None)
        answer = text.split(separator) if text else []
    if callable(getattr(answer, "tolist", None)):  # arrays of numpy and torch
        answer = answer.tolist()
    if not isinstance(answer, Sequence):
        raise ValueError(f"a {type(answer).__name__}, not a list of numbers")
    return [read_number(element) for element in answer]


def answer_part(text: str) -> str:
    """The part of a text that is marked as the answer; all of it if nothing is."""
    boxed = text.rfind("\\boxed{")
    if boxed >= 0:
        return _within_braces(text[boxed + len("\\boxed{") :])
    marks = list(_MARK.finditer(text))
    if not marks or (marks[-1][0] == "=" and _LISTED.search(text, marks[0].end(), marks[-1].start())):
        return text
    return text[marks[-1].end() :].strip()


def matches(answer: Number, expected: Number, *, tolerance: float | None) -> bool:
    """True if the answer is no further off than the tolerance.

    Without one, whole numbers must be the same, and others within a billionth of the expected one (of zero: 1e-9).
    Raises `ValueError` for a whole number that is too large to be held against one of another form.
    """
    if isinstance(answer.value, complex) or isinstance(expected.value, complex):
        gap = _complex(answer) - _complex(expected)
        size = hypot(_complex(expected).real, _complex(expected).imag)
        return hypot(gap.real, gap.imag) <= (tolerance if tolerance is not None else 1e-9 * (size or 1.0))
    if isinstance(answer.value, int) and isinstance(expected.value, int):
        return abs(answer.value - expected.value) <= (tolerance or 0)
    found, sought = _decimal(answer.value), _decimal(expected.value)
    if tolerance is None and answer.whole and expected.whole:
        return found == sought
    try:
        difference = EXACT.subtract(found, sought).copy_abs()
        if tolerance is not None:
            return difference <= Decimal(repr(float(tolerance)))
        return difference <= (EXACT.multiply(sought, _SMALL).copy_abs() or _SMALL)
    except DecimalException:  # beyond a trillion digits
        return False


def _number_in(text: str, *, words: bool) -> Number:
    text = plain(text)
    part = answer_part(text)
    try:
        return read_numeral(part, words=words)
    except ValueError:
        if part == text or any(character.isnumeric() for character in part):
            raise
        return read_numeral(text, words=words)  # `42 = x`


def _within_braces(text: str) -> str:
    depth = 1
    for position, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[:position].strip()
    return text.strip()


def _complex(number: Number) -> complex:
    value = number.value
    return value if isinstance(value, complex) else complex(float(_decimal(value)))


def _decimal(value: int | Decimal) -> Decimal:
    if isinstance(value, int) and value.bit_length() > _LARGEST_BITS:
        raise ValueError(f"a whole number of {value.bit_length()} bits")
    return Decimal(value)

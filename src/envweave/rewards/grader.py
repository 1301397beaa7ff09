r"""Compare an answer with the expected one: the only grader of `envweave.rewards` and of the REPL.

    right       the answer is the expected one
    wrong       it is another answer of the same kind
    invalid     it cannot be read as an answer of this kind; the agent caused that, so it scores as a wrong one
    undecided   the expected answer cannot be compared with anything, so nothing is known about the answer

In a text, the answer is what the last `\boxed{…}` contains, else what follows the last `answer is`, `answer:` or
`####`, else all of it. docs/rewards.md has a table of the kinds of answers; `numerals` says which forms of numbers are
read. A number must be written as a number: `6*7` is not an answer to "what is 6*7?".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from fractions import Fraction
from math import isfinite
from typing import Any, Literal, TypeAlias

from envweave.rewards import symbolic
from envweave.rewards.numerals import EXACT, LONGEST, Number, is_denied, plain, read_long, read_numeral

Verdict: TypeAlias = Literal["right", "wrong", "invalid", "undecided"]
Kind: TypeAlias = Literal["number", "bool", "list", "set", "expression", "text"]

_MARK = re.compile(r"answers? ?(?:is\b|are\b|:|=)|####", re.IGNORECASE)
_BOXED = "\\boxed{"
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_SMALL = Decimal("1e-9")
_MOST_BITS = 400_000
"""Of an integer that is converted to a decimal number, which takes quadratic time."""
_MOST_TEXT = 200_000
"""Characters of a text that is compared as text."""
_EDGES = " \t\r\n.,;:!?\"'`*$“”‘’"
_SPACED = re.compile(r"(?:\s*[,;]\s+(?:and\b)?|\s+and\b|\s*&)\s*")
_TIGHT = re.compile(r"\s*[,;]\s*(?:and\b\s*)?|\s+(?:and\b\s*)?|\s*&\s*")


@dataclass(frozen=True, slots=True)
class Grade:
    """A verdict, and the reason if the answer was not compared."""

    verdict: Verdict
    reason: str = ""

    @property
    def score(self) -> float | None:
        """1.0 for a right answer, None if it is undecided, else 0.0."""
        return None if self.verdict == "undecided" else float(self.verdict == "right")


@dataclass(frozen=True, slots=True)
class Expected:
    """An expected answer that was read, so that any number of answers can be compared with it."""

    kind: Kind
    value: Any
    brackets: str = ""
    """Around an expected text, `()` or `[]`: as intervals they differ."""

    @classmethod
    def read(cls, given: Any) -> Expected:
        """Raises `ValueError`, with the reason, for an expected answer that no answer could match."""
        given = _plain_value(given)
        if isinstance(given, bool):
            return cls("bool", given)
        if isinstance(given, list | tuple | Set):
            numbers = [read_number(element, words=False) for element in given]
            return cls("set" if isinstance(given, Set) else "list", numbers)
        if not isinstance(given, str):
            return cls("number", read_number(given, words=False))
        return cls._from_text(given)

    @classmethod
    def _from_text(cls, given: str) -> Expected:
        text = _answer_part(given).strip()
        if not text:
            raise ValueError("an empty text")
        if text.lower() in ("true", "false"):
            return cls("bool", _TRUTH[text.lower()])
        with suppress(ValueError):
            return cls("number", read_number(text, words=False))
        with suppress(ValueError):
            brackets = _brackets(text)
            if brackets or ", " in text:
                numbers = [read_number(element, words=False) for element in _elements(text)]
                return cls("set" if brackets == "{}" else "list", numbers, brackets)
        return cls("expression" if symbolic.looks_symbolic(text) else "text", text)

    def grade(self, answer: Any, *, tolerance: float | None = None) -> Grade:
        """Compare an answer. Takes bounded time and never raises, whatever the answer is."""
        try:
            answer = _plain_value(answer)
            if self.kind == "expression":
                return self._grade_expression(answer)
            return Grade("right" if self._is_right(answer, tolerance) else "wrong")
        except (ValueError, ArithmeticError, RecursionError, TypeError) as error:
            return Grade("invalid", str(error) or type(error).__name__)

    def _is_right(self, answer: Any, tolerance: float | None) -> bool:
        """Raises `ValueError`, with the reason, for an answer that cannot be read as one of this kind."""
        if self.kind == "number":
            answer = _plain_value(answer[0]) if isinstance(answer, list | tuple) and len(answer) == 1 else answer
            return matches(read_number(answer), self.value, tolerance=tolerance)
        if self.kind == "bool":
            return _read_bool(answer) is self.value
        if self.kind == "text":
            return _same_text(answer, self.value)
        if isinstance(answer, str) and self.brackets in ("()", "[]") and _brackets(answer) not in ("", self.brackets):
            return False
        found = read_list(answer)
        if len(found) != len(self.value):
            return False
        if self.kind == "list":
            pairs = zip(found, self.value, strict=True)
            return all(matches(one, other, tolerance=tolerance) for one, other in pairs)
        return all(any(matches(one, other, tolerance=tolerance) for one in found) for other in self.value)

    def _grade_expression(self, answer: Any) -> Grade:
        if _same_text(answer, self.value, spaces=""):
            return Grade("right")
        try:
            return Grade("right" if symbolic.compare(self.value, _marked(str(answer))) else "wrong")
        except RuntimeError as error:
            return Grade("undecided", str(error))


def grade(answer: Any, expected: Any, *, tolerance: float | None = None) -> Grade:
    """Compare an answer with an expected one; undecided if that cannot be compared with anything."""
    try:
        read = Expected.read(expected)
    except ValueError as error:
        return Grade("undecided", f"the expected answer is {error}")
    return read.grade(answer, tolerance=tolerance)


def read_number(answer: Any, *, words: bool = True) -> Number:
    """The number that a value is, or that a text says. Raises `ValueError` with the reason if there is none."""
    if isinstance(answer, str):
        return _number_in(answer, words=words)
    if isinstance(answer, bool):
        raise ValueError("a truth value, not a number")
    if isinstance(answer, int):
        return Number(int(answer), whole=True)
    if isinstance(answer, float) and isfinite(answer):
        return Number(Decimal(repr(float(answer))))  # 0.1 means 0.1
    if isinstance(answer, complex) and isfinite(answer.real) and isfinite(answer.imag):
        return Number(Decimal(repr(answer.real)), Decimal(repr(answer.imag)))
    if isinstance(answer, Fraction):
        return Number(EXACT.divide(_decimal(answer.numerator), _decimal(answer.denominator)))
    if isinstance(answer, Decimal) and answer.is_finite():
        return Number(answer)
    raise ValueError(f"a {type(answer).__name__}, not a finite number")


def read_list(answer: Any) -> list[Number]:
    """The numbers that a list contains, or that a text lists. Raises `ValueError` with the reason otherwise."""
    if isinstance(answer, str):
        return [read_number(element) for element in _elements(_marked(answer))]
    if isinstance(answer, list | tuple | Set):
        return [read_number(_plain_value(element)) for element in answer]
    return [read_number(answer)]


def matches(answer: Number, expected: Number, *, tolerance: float | None) -> bool:
    """True if the answer is no further off than the tolerance.

    Without one, integers must be equal. Other numbers must be within a relative 1e-9 of the expected one (absolute if
    it is 0), and within 1e-6 of an integer. Raises `ValueError` for an integer that is too large to be compared with a
    number of another form.
    """
    if isinstance(answer.real, int) and isinstance(expected.real, int) and tolerance is None:
        return (answer.real, answer.imag) == (expected.real, expected.imag)
    gaps = [_gap(answer.real, expected.real), _gap(answer.imag, expected.imag)]
    if tolerance is not None:
        return max(gaps) <= Decimal(repr(float(tolerance)))
    if answer.whole and expected.whole:
        return not any(gaps)
    sizes = [_decimal(part).copy_abs() for part in (expected.real, expected.imag)]
    allowed = EXACT.multiply(max(sizes), _SMALL) or _SMALL
    return max(gaps) <= (min(allowed, Decimal("1e-6")) if expected.whole else allowed)


def _gap(one: int | Decimal, other: int | Decimal) -> Decimal:
    """How far two numbers are apart; a number that is too large for the difference is infinitely far."""
    if isinstance(one, int) and isinstance(other, int):
        return _decimal(abs(one - other))
    one, other = _decimal(one), _decimal(other)
    if one == other:  # exact, also for numbers of more digits than the difference has
        return Decimal(0)
    try:
        return max(EXACT.subtract(one, other).copy_abs(), EXACT.create_decimal("1e-100"))
    except DecimalException:
        return Decimal("Infinity")


def _decimal(value: int | Decimal) -> Decimal:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError(f"an integer of {value.bit_length()} bits")
    return Decimal(value)


def _plain_value(value: Any) -> Any:
    """Scalars and arrays of NumPy and torch as Python's own."""
    return value.tolist() if callable(getattr(value, "tolist", None)) else value


def _number_in(text: str, *, words: bool) -> Number:
    return read_long(text) if len(text) > LONGEST else read_numeral(_marked(plain(text)), words=words)


def _elements(text: str) -> list[str]:
    text = plain(text).strip(_EDGES)
    opened = text.find("[")
    if 0 <= opened < (closed := text.rfind("]")):
        if text[opened + 1 : closed].count("[") or text[:opened].count("]"):
            raise ValueError("a list of lists")
        text = text[opened : closed + 1]
    if _brackets(text):
        text = text[1:-1]
    text = text.strip().rstrip(",;")
    separator = _SPACED if re.search(r"[,;]\s|\sand\b|&", text) else _TIGHT
    return separator.split(text) if text else []


def _brackets(text: str) -> str:
    """The brackets around a text, `()`, `[]` or `{}`; empty if there are none, or two that do not belong together."""
    text = plain(_marked(text)).strip(_EDGES)
    around = text[:1] + text[-1:]
    return around if around in ("()", "[]", "{}") else ""


def _answer_part(text: str, *, denied: bool = True) -> str:
    """The part of a text that is marked as the answer; all of it if nothing is.

    Unless it may be `denied`, raises `ValueError` if the words before it deny it.
    """
    boxed = text.rfind(_BOXED)
    if boxed >= 0:
        return _within_braces(text[boxed + len(_BOXED) :])
    marks = list(_MARK.finditer(text))
    if not marks:
        return text
    if not denied and marks[-1][0] != "####" and is_denied(text[: marks[-1].start()], ""):
        raise ValueError("words that deny the answer")
    return text[marks[-1].end() :].strip()


def _marked(text: str) -> str:
    return _answer_part(text, denied=False)


def _within_braces(text: str) -> str:
    depth = 1
    for position, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[:position].strip()
    return text.strip()


def _read_bool(answer: Any) -> bool:
    text = str(answer) if isinstance(answer, bool | str) else ""
    found = next((_TRUTH[form] for form in _forms(text) if form in _TRUTH), None)
    if found is None:
        raise ValueError("not a truth value")
    return found


def _same_text(answer: Any, expected: str, *, spaces: str = " ") -> bool:
    r"""Whether the texts are the same except for case, outer punctuation, space and `\text` of LaTeX."""
    if not isinstance(answer, str | int | float):
        raise ValueError(f"a {type(answer).__name__}, not a text")
    return _normal(expected).replace(" ", spaces) in {form.replace(" ", spaces) for form in _forms(str(answer))}


def _forms(answer: str) -> set[str]:
    """The text as a whole, and the part that is marked as the answer."""
    if len(answer) > _MOST_TEXT:
        raise ValueError(f"longer than {_MOST_TEXT} characters")
    return {_normal(answer), _normal(_marked(answer))}


def _normal(text: str) -> str:
    text = re.sub(r"\\(?:text|mathrm|mbox) ?\{([^{}]*)\}", r" \1 ", text)
    text = unicodedata.normalize("NFKC", text).casefold()
    text = " ".join(text.split())
    return text.strip(_EDGES) or text

r"""Read the one number in a text, in the forms in which programs print it and people write it.

    42  -5  +5  −5  42.0  .5  4.2e1  4.2 × 10^1     1,000  1 000  1_000
    84/2  1 1/2  \frac{84}{2}  Fraction(84, 2)       $42  42 %  42 km/h
    Decimal('42')  np.float64(42.0)  array(42)      (3+4j)

Decimal numbers are exact, whole ones of any size too, and `1e999999999` costs no more than `1`; fractions have a
hundred digits. A percent sign is a unit: `42%` is 42. Words around the number are skipped; a text with two numbers is
not a number, nor is an expression (`2*pi`, `sqrt(2)`, `x > 3`), a list, NaN or an infinity.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from math import isfinite
from typing import NamedTuple

LONGEST = 10_000
"""Characters of text that are read. All patterns here take time in proportion to it."""

EXACT = Context(prec=100, Emax=10**12, Emin=-(10**12))


class Number(NamedTuple):
    """A number, and whether it was written as a whole one."""

    value: int | Decimal | complex
    whole: bool = False


_GROUPS = r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]{1,3}(?:_[0-9]{3})+"
_FRACTION = r"(?:(?P<units>[0-9]++) ++)?(?P<top>[0-9]++) ?/ ?(?P<bottom>[0-9]++)"
_DECIMAL = rf"(?P<body>(?:{_GROUPS}|[0-9]++)(?:\.[0-9]++|\.(?=[eE][+-]?[0-9]))?|\.[0-9]++)"
_POWER = r"(?:[eE](?P<e>[+-]?[0-9]{1,9})| ?(?:[×*]|\\times) ?10 ?(?:\^|\*\*) ?\{?(?P<ten>[+-]?[0-9]{1,9})\}?)?"
_NUMBER = re.compile(
    rf"(?<![\w.,/^])(?<!\w-)(?P<sign>[+-]?)[$€£¥]?(?:{_FRACTION}|{_DECIMAL}{_POWER})(?![\w/^]|[.,][0-9]|\.\w)"
)
_PART = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[+-]?[0-9]++)?"
_COMPLEX = re.compile(rf"\(?((?:{_PART}(?=[+-]))?{_PART})[ji]\)?", re.IGNORECASE)

_CHARACTERS = str.maketrans({"\u2212": "-", "\uff0d": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\t": " "})
_WRAPPER = r"\b(?:np\.|numpy\.)?(?:Decimal|Float|Integer|mpf|array|tensor|float[0-9]*|u?int[0-9]*)"
_REWRITTEN = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\{,\}", ","),
        (r"\\[,!;: \[\]()]", " "),
        (r"\\(?:text|mathrm|mathbf) ?\{([^{}]*)\}", r" \1 "),
        (r"(?<=[0-9])(?=\\[dt]?frac)", " "),
        (r"\\[dt]?frac ?\{ ?([0-9]+) ?\} ?\{ ?([0-9]+) ?\}", r"\1/\2"),
        (r"\bFraction\(([+-]?[0-9]+), ?([0-9]+)\)", r"\1/\2"),
        (_WRAPPER + r"""\(['"]?([^()'",\[\]]*)['"]?(?:, ?[\w.='":]*)*\)""", r"\1"),
        (r"\*\*([^*]*)\*\*", r" \1 "),
        (r"</?\w+>", " "),
    )
]
_EXPRESSION = re.compile(
    r"!=|[*^+<>|√∛π∞\[\]{}]"
    r"|(?<![^\W\d_])/|/(?![^\W\d_])"  # a slash between letters is a unit
    r"|(?<!\w)-|-(?!\w)"  # so is a hyphen in a word; on its own it may be a minus
    r"|\w\([^()]*$|\b(?:pi|sqrt|log|ln|exp|sin|cos|tan|inf|infinity|nan)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]\w*")


def plain(text: str) -> str:
    """The text with one spelling for what has several. Raises `ValueError` if it is too long to be read."""
    if len(text) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    text = text.translate(_CHARACTERS)
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return text.strip()


def read_numeral(text: str, *, words: bool = True) -> Number:
    """The one number in a text that `plain` has made. Raises `ValueError` with the reason if there is not exactly one.

    Without `words`, nothing but a currency, a percent sign and a full stop may stand beside it.
    """
    imaginary = _COMPLEX.fullmatch(text)
    if imaginary:
        return _complex(imaginary[1] + "j")
    found = list(_NUMBER.finditer(text))
    if not found:
        raise ValueError("no number")
    if len(found) > 1:
        raise ValueError("several numbers, and nothing that marks one as the answer")
    before, after = text[: found[0].start()], text[found[0].end() :]
    if _EXPRESSION.search(before) or _EXPRESSION.search(after) or _has_digits(before) or _has_digits(after):
        raise ValueError("an expression, not a number")
    if not words and (before + after).strip(" %$€£¥.\\"):
        raise ValueError("words beside the number")
    return _number(found[0])


def _has_digits(text: str) -> bool:
    """Digits, in any script, that are not part of a word such as `H2O`; and `½`, which counts as a letter."""
    return any(one.isdigit() for one in _WORD.sub(" ", text)) or any(
        one.isnumeric() and not one.isdigit() and not one.isalpha() for one in text
    )


def _number(found: re.Match[str]) -> Number:
    sign = found["sign"]
    if found["top"] is not None:
        bottom = Decimal(found["bottom"])
        if not bottom:
            raise ValueError("a division by zero")
        value = EXACT.add(Decimal(found["units"] or 0), EXACT.divide(Decimal(found["top"]), bottom))
        return Number(value.copy_negate() if sign == "-" else value)
    body, power = re.sub("[ ,_]", "", found["body"]), found["e"] or found["ten"]
    return Number(Decimal(f"{sign}{body}e{power or 0}"), whole=power is None and "." not in body)


def _complex(text: str) -> Number:
    value = complex(text)
    if not (isfinite(value.real) and isfinite(value.imag)):
        raise ValueError("not a finite number")
    return Number(value)

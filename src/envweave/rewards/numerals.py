r"""Read the one number in a text, in the forms in which programs print it and people write it.

    42  -5  +5  −5  42.0  .5  4.2e1  4.2 × 10^1     1,000  1 000  1_000     0x2a  0b101
    84/2  1 1/2  ½  1½  \frac{84}{2}  Fraction(84, 2)      $42  42 %  42 km/h
    Decimal('42')  np.float64(42.0)  array(42)  [42]      (3+4j)  3 - 4i
    x = 42  42 = x  42 = 6*7  6*7 = 42  x ≈ 42

Decimal numbers are exact, and `1e999999999` costs no more than `1`; fractions have a hundred digits. A percent sign is
a unit: `42%` is 42. Words around the number are skipped, except those that deny, compare or scale it (`not 42`, `at
least 42`, `minus 42`, `42 million`). Not numbers: two numbers, expressions (`6*7`, `2*pi`), inequalities, `±42`,
`2x = 42`, equations whose sides differ, NaN and infinities.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Context, Decimal
from typing import NamedTuple

LONGEST = 10_000
"""Characters of text that are searched for a number. All patterns here take time in proportion to them."""
MOST_DIGITS = 1_000_000
"""Characters of a text that is nothing but one numeral."""

EXACT = Context(prec=100, Emax=10**12, Emin=-(10**12))


class Number(NamedTuple):
    """A number, and whether it was written as an integer."""

    real: int | Decimal
    imag: Decimal = Decimal(0)
    whole: bool = False


_GROUPS = r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]{1,3}(?:_[0-9]{3})+"
_FRACTION = r"(?:(?P<units>[0-9]++) ++)?(?P<top>[0-9]++) ?/ ?(?P<bottom>[0-9]++)"
_DECIMAL = rf"(?P<body>(?:{_GROUPS}|[0-9]++)(?:\.[0-9]++|\.(?=[eE][+-]?[0-9]))?|\.[0-9]++)"
_POWER = r"(?:[eE](?P<e>[+-]?[0-9]{1,9})| ?[×*] ?10 ?(?:\^|\*\*) ?\{?(?P<ten>[+-]?[0-9]{1,9})\}?)?"
_RADIX = r"(?P<radix>0[xX][0-9a-fA-F]++|0[bB][01]++|0[oO][0-7]++)"
_NUMBER = re.compile(
    rf"(?<![\w.,/^])(?<!\w-)(?P<sign>[+-]?)[$€£¥]?(?:{_RADIX}|{_FRACTION}|{_DECIMAL}{_POWER})(?![\w/^]|[.,][0-9]|\.\w)"
)
_LONG = re.compile(r"[+-]?[0-9]++(?:\.[0-9]*+)?")
_PART = r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[+-]?[0-9]{1,9})?"
_COMPLEX = re.compile(rf"\(?(?:(?P<real>[+-]?{_PART}) ?(?=[+-]))?(?P<imag>[+-]? ?(?:{_PART})?)[ji]\)?", re.IGNORECASE)

_SIGNS = {"−": "-", "－": "-", "⁄": "/", "⋅": "*", "·": "*", "\t": " ", "\u00a0": " ", "\u2009": " ", "\u202f": " "}
_CHARACTERS = str.maketrans({**_SIGNS, **{power: f"^{digit}" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}})
_WRAPPER = r"\b(?:np\.|numpy\.)?(?:Decimal|Float|Integer|mpf|array|tensor|float[0-9]*|u?int[0-9]*)"
_MATH = {
    "×": "times", "*": "cdot", "≠": "neq?", "≤": "leq?", "≥": "geq?", "<": "lt", ">": "gt", "±": "pm", "∓": "mp",
    "≈": "approx", "°": "circ", "π": "pi", "∞": "infty",
}  # fmt: skip
_REWRITTEN = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\{,\}", ","),
        (r"\\(?:[,!;: \[\]()]|left\b|right\b|displaystyle\b)", " "),
        (r"\\([%$€£¥{}])", r"\1"),
        (r"\\(?:text|textbf|mathrm|mathbf|mbox) ?\{([^{}]*)\}", r" \1 "),
        *((rf"\\{name}(?![a-z])", symbol) for symbol, name in _MATH.items()),
        (r"\^ ?(?:\{ ?° ?\}|°)", "°"),
        (r"(?<=[0-9])(?=\\[dt]?frac)", " "),
        (r"\\[dt]?frac ?\{ ?([0-9]+) ?\} ?\{ ?([0-9]+) ?\}", r"\1/\2"),
        (r"\\[dt]?frac ?\{ ?-([0-9]+) ?\} ?\{ ?([0-9]+) ?\}", r"-\1/\2"),
        (r"\\[dt]?frac ?([0-9])([0-9])", r"\1/\2"),
        (r"\bFraction\(([+-]?[0-9]+), ?([0-9]+)\)", r"\1/\2"),
        (_WRAPPER + r"""\(['"]?([^()'",\[\]]*)['"]?(?:, ?[\w.='":]*)*\)""", r"\1"),
        (r"\*\*([^*]*)\*\*", r" \1 "),
        (r"</?\w+>", " "),
    )
]
_EXPRESSION = re.compile(
    r"[=*^+\[\]{}]"
    r"|(?<![^\W\d_])/|/(?![^\W\d_])"  # a slash between letters is a unit
    r"|(?<!\w)-|-(?!\w)"  # a hyphen within a word is part of it; elsewhere it may be a minus
    r"|\w\([^()]*$|\b(?:pi|sqrt|log|ln|exp|sin|cos|tan|inf|infinity|nan)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|no|never|none|neither|nor|cannot|\w+n['’]t|isnt|unless|wrong|incorrect|untrue|unequal|than|"
    r"differs?|different from|at (?:least|most)|or (?:more|less|fewer|greater|higher|lower|above|below|over|under))\b",
    re.IGNORECASE,
)
_CHANGED_BEFORE = re.compile(
    r"\b(?:minus|negative|plus|half|twice|double|above|below|under|over|almost|nearly|up to|exceed\w*|except|excluding|"
    r"without|besides|but|opposite)(?: of| by| for)? *$",
    re.IGNORECASE,
)
_CHANGED_AFTER = re.compile(
    r" *(?:squared|cubed|dozen|hundred|thousand|million|billion|trillion)\b|.*\bfalse\b", re.IGNORECASE | re.DOTALL
)
_CLAUSE_END = re.compile(r"[.!;,?](?=\s)|\n")
_SENTENCE_END = re.compile(r"[.!;](?=\s|$)|\n")
_WORD = re.compile(r"[^\W\d_]\w*")
_EQUALS = re.compile(r"(?<![<>!=:])[:=]?=(?!=)|≈")
_LISTED = re.compile(r"[,;] |\b(?:and|or)\b")
_VARIABLE = re.compile(r"(?<![^\W\d_])[^\W\d_](?!\w)")
_CALL = re.compile(r"\b[^\W\d_]\w*\([\w, ]*\)")
_ARITHMETIC = re.compile(r"[0-9*/^+-]|\\frac|\\sqrt|√")


def plain(text: str) -> str:
    """The text with one spelling for what has several. Raises `ValueError` if it is too long to be read."""
    if len(text) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    text = "".join(_fraction(text, place) for place in range(len(text))) if not text.isascii() else text
    text = text.translate(_CHARACTERS)
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return text.strip()


def _fraction(text: str, place: int) -> str:
    """The character at this place; `½` as `1/2`."""
    kind, *digits = unicodedata.decomposition(text[place]).split() or [""]
    if kind != "<fraction>" or len(digits) < 3:
        return text[place]
    spelled = "".join(chr(int(digit, 16)) for digit in digits)
    return f" {spelled}" if place and text[place - 1].isdigit() else spelled


def read_numeral(text: str, *, words: bool = True) -> Number:
    """The one number in a text that `plain` has made. Raises `ValueError` with the reason if there is not exactly one.

    Without `words`, only brackets, a currency, a percent sign and a full stop may be beside it.
    """
    sides = _EQUALS.split(text)
    if len(sides) > 1:
        return _equation(text, sides, words=words)
    text = _unwrapped(text.strip())
    found = _COMPLEX.fullmatch(text)
    if found and any(character.isdigit() for character in text):
        return Number(Decimal(found["real"] or 0), Decimal(_coefficient(found["imag"])))
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        raise ValueError("no number")
    if len(numbers) > 1:
        raise ValueError("several numbers, and nothing that marks one as the answer")
    before, after = text[: numbers[0].start()], text[numbers[0].end() :]
    for part in (before, after):
        if _EXPRESSION.search(part) or _has_digits(part) or has_relations(part, allowed=""):
            raise ValueError("an expression, not a number")
    if not words and (before + after).strip(" %$€£¥.°\\"):
        raise ValueError("words beside the number")
    if is_denied(before, after):
        raise ValueError("words that deny, compare or scale the number")
    return _number(numbers[0])


def is_denied(before: str, after: str) -> bool:
    """Whether the words around an answer say that it is not the answer, or another quantity."""
    before = _CLAUSE_END.split(before)[-1]
    after = _SENTENCE_END.split(after, maxsplit=1)[0]
    around = (_DENIED.search(before), _DENIED.search(after))
    return any((*around, _CHANGED_BEFORE.search(before), _CHANGED_AFTER.match(after)))


def has_relations(text: str, *, allowed: str) -> bool:
    """Whether a text has mathematical symbols, such as `≠`, `≤`, `±` and `|`, apart from those that are allowed."""
    return any(
        (unicodedata.category(character) == "Sm" or unicodedata.combining(character) == 1) and character not in allowed
        for character in text
    )


def read_long(text: str) -> Number:
    """The number that a text of any length is, without anything beside it. Raises `ValueError` if it is not one."""
    text = text.strip()
    if len(text) > MOST_DIGITS or not _LONG.fullmatch(text):
        raise ValueError(f"longer than {LONGEST} characters")
    return Number(Decimal(text), whole="." not in text)


def _equation(text: str, sides: list[str], *, words: bool) -> Number:
    """The number that an equation gives for a name or for an arithmetic expression."""
    marks = list(_EQUALS.finditer(text))
    if _LISTED.search(text, marks[0].end(), marks[-1].start()):
        raise ValueError("several equations, and nothing that marks one as the answer")
    numbers = []
    for side in sides:
        try:
            numbers.append(read_numeral(side, words=False))
        except ValueError as error:
            bare = _CALL.sub("", side)
            empty = side.strip() and not any(character.isalnum() for character in side)  # as in `x =/= 42`
            if empty or has_relations(side, allowed="+×÷√") or (_VARIABLE.search(bare) and _ARITHMETIC.search(bare)):
                raise ValueError("an equation of something else") from error
    if not numbers and words:
        numbers = [read_numeral(sides[-1])]
    if not numbers:
        raise ValueError("no number")
    if any((one.real, one.imag) != (numbers[-1].real, numbers[-1].imag) for one in numbers):
        raise ValueError("the sides of the equation differ")
    if words and is_denied(text[: marks[0].start()], ""):
        raise ValueError("words that deny, compare or scale the number")
    return numbers[-1]


def _unwrapped(text: str) -> str:
    """`[42]` and `(42)` as `42`."""
    while text[:1] + text[-1:] in ("[]", "()") and not set("[](),;") & set(text[1:-1]):
        text = text[1:-1].strip()
    return text


def _has_digits(text: str) -> bool:
    """Digits, in any script, that are not part of a word such as `H2O`."""
    return any(one.isdigit() for one in _WORD.sub(" ", text)) or any(
        one.isnumeric() and not one.isdigit() and not one.isalpha() for one in text
    )


def _number(found: re.Match[str]) -> Number:
    sign = found["sign"]
    if found["radix"] is not None:
        value = int(found["radix"], 0)
        return Number(-value if sign == "-" else value, whole=True)
    if found["top"] is not None:
        bottom = Decimal(found["bottom"])
        if not bottom:
            raise ValueError("a division by zero")
        ratio = EXACT.add(Decimal(found["units"] or 0), EXACT.divide(Decimal(found["top"]), bottom))
        return Number(ratio.copy_negate() if sign == "-" else ratio)
    body, power = re.sub("[ ,_]", "", found["body"]), found["e"] or found["ten"]
    return Number(Decimal(f"{sign}{body}e{power or 0}"), whole=power is None and "." not in body)


def _coefficient(text: str) -> str:
    text = text.replace(" ", "")
    return f"{text}1" if text in ("", "+", "-") else text

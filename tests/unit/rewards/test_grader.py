r"""One table of answers: each pair is accepted, refused or undecided, for `rewards` and for the REPL alike."""

import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from envweave.envs.repl.settings import correctness
from envweave.rewards import grade, symbolic
from envweave.rewards.grader import Expected, matches, read_list, read_number
from envweave.rewards.numerals import Number
from support.need import need

FORTY_TWO = [
    42, 42.0, Decimal(42), Fraction(84, 2), np.int64(42), np.float32(42), np.array(42), 42 + 0j, [42], (42,), ["42"],
    "42", " 42\n", "42.0", "42.", "+42", "4.2e1", "4.2E+1", "420e-1", "4.2 × 10^1", "4.2*10**1", r"4.2 \times 10^{1}",
    "$42", "€42", "42 €", "42 %", "42%", r"42\%", r"\$42", "84/2", "84 / 2", "126/3", "41 2/2", r"\frac{84}{2}",
    r"\dfrac{84}{2}", r"\boxed{42}", r"so $\boxed{\frac{84}{2}}$ it is", r"\boxed{1} no, \boxed{42}", r"\(42\)",
    r"\left(42\right)", r"42\text{ km}", "x = 42", "x=42", "6 * 7 = 42", "42 = 6*7", "42 = 6 × 7", "6·7 = 42",
    "x == 42",
    "x := 42", "= 42", "42 = x", "x ≈ 42", r"x \approx 42", "6*7 = 84/2 = 42", "x = 42 = 6*7", "f(2) = 42", "x1 = 42",
    "a_n = 42", "P(A) = 42", "Total cost = $42", "y = 42 apples", "log_2 x is 42",
    "9 choose 2 = 42", r"\sqrt{1764} = 42",
    "The answer is 42.", "ANSWER: 42", "Answer = 42", "The final answer is: 42!", "#### 42", "2 + 2 is 4\n#### 42",
    "First 1, then 2.\nThe answer is 42", "I was not sure, but the answer is 42", "not 41. The answer is 42.",
    "The answer is 42. No further steps.", "There are no apples left, so the total is 42", "The difference is 42",
    "The least common multiple is 42", "The most common value: 42", "**42**", "`42`", "'42'", '"42"', "(42)", "[42]",
    "( 42 )", "42 apples", "42 more apples", "42 times", "about 42 or so", "42 km/h", "42°", r"42^\circ",
    "<answer>42</answer>", "Fraction(84, 2)", "Decimal('42')", "Decimal(42)", "np.float64(42.0)", "np.int64(42)",
    "numpy.int32(42)", "float32(42.0)", "array(42)", "array(42., dtype=float32)", "tensor(42.)",
    "tensor(42., device='cuda:0')", "mpf('42.0')", "H2O makes 42", "f(x) is 42", "0x2a", "0x2A", "0b101010", "0o52",
    "42,000e-3", "00042", "42.0000000001",
]  # fmt: skip

NOT_FORTY_TWO = [
    True, None, float("nan"), float("inf"), b"42", {"answer": 42}, [41, 42], [], [[42]], object(), 41, -42, 42.001, 42j,
    "", "   ", "forty-two", "True", "None", "nan", "NaN", "inf", "-inf", "Infinity", "1/0", "0/0", "Fraction(1, 0)",
    "41", "-42", "−42", "420", "4.2", "42.5", "42.001", "1e999999999", "42e9999999999", "0x42", "4 2", "42j", "42i",
    "x ≠ 42", r"x \neq 42", r"x \ne 42", "x != 42", "x =/= 42", "x =\u0338 42", "x ≤ 42", "x ≥ 42", r"x \leq 42",
    r"x \ge 42", "x <= 42", "x >= 42", "x => 42", "x < 42", "x > 42", r"x \lt 42", "x ⩽ 42", "x ≮ 42", "x ∉ 42", "~42",
    "¬42", "±42", r"\pm 42", r"x = \pm 42", "∓42", "+-42", "|42|", "|x| = 42", "x → 42",
    "not 42", "the answer is not 42", "The answer isn't 42", "The answer isn’t 42", "The answer is not: 42",
    "it is not true that the answer is 42", "the answer is never 42", "anything but 42", "everything except 42",
    "neither 42", "wrong answer: 42", "42 is wrong", "42 is not the answer", "42? No.", "42 is false", "not x = 42",
    "more than 42", "less than 42", "at least 42", "at most 42", "up to 42", "over 42", "under 42", "almost 42",
    "42 or more", "42 or less", "minus 42", "negative 42", "twice 42", "half of 42", "42 million", "42 thousand",
    "42 squared", "the answer is 42 million", "opposite of 42",
    "between 41 and 42", "41-42", "41 or 42", "42 or 41", "41, 42", "41; 42", "x = 41, y = 42", "x = 41 and y = 42",
    "42 = 41", "41 = 42", "x = 41 = 42", "2x = 42", "x^2 = 42", "x**2 = 42", "-x = 42", "x/2 = 42", "x + y = 42",
    "6 * 7", "6*7", "40 + 2", "2*pi", "2 pi", "2π", "pi/2", "sqrt(42)", "√42", r"\sqrt{1764}", "log(x, 42)", "42*x",
    "x**42", "1 / x", "10^2", "2**5", "6²", "42²", "4²", "42!2", "1.2.3", "1,00", "4,2", "1,0000", "1.000,50", "3,14",
    "1 0000", "2024-01-02", "1/2/3", "10:30", "42km", "GPT-42", "- 42", "--42", "Result - 42", "[41, 42]", "[42, 42]",
    "{'a': 42}", "٤٢", "四十二", "4.e", "42.x", "answer is not known", r"\boxed{}", r"\boxed{x}", r"\boxed{41}",
    r"42 \boxed{41}", r"\boxed{42} \boxed{41}", "1..2", "(1..2+3j)", "the answer is 41, not 42",
    "answer: 42 answer: 41",
]  # fmt: skip

ACCEPTED = [
    # numbers, signs, groups, fractions
    ("-5", -5), ("−5", -5), ("－5", -5), ("-$5", -5), ("$-5", -5), ("x = -5", -5), ("(-5)", -5), ("1,000", 1000),
    ("1,234,567.89", "1234567.89"), ("1 000", 1000), ("1\u00a0000\u202f000", 10**6), ("1_000", 1000),
    (r"1{,}000", 1000),
    (r"1\,000", 1000), ("-1,000", -1000), ("$1,000.50", 1000.5), (".5", 0.5), ("-.5", -0.5), ("1/2", 0.5), ("½", "1/2"),
    ("½", 0.5), ("-½", -0.5), ("1½", 1.5), ("1 ½", 1.5), ("⅔", "2/3"), ("-1/2", -0.5), ("1 1/2", 1.5), ("-1 1/2", -1.5),
    (r"-\frac{1}{2}", -0.5), (r"\frac{-1}{2}", -0.5), (r"\frac12", 0.5), (r"1\frac{1}{2}", 1.5),
    ("Fraction(-1, 2)", -0.5), ("007", 7), ("0", 0), ("-0", 0), ("0.1", 0.1), (0.1 + 0.2, 0.3), (1 / 3, "1/3"),
    ("0.3333333333", "1/3"), (1e-17, 0), ("1e-12", 1e-12), ("1e-400", Decimal("1e-400")), ("22/2", "11"), ("1.1e1",
    "11"),
    ("11.0", "11"), ("0b1011", "11"), ("1000", "1e3"), ("$42.00", "42"), (42, r"\boxed{42}"), (42, "$42.00"),
    # large ones
    (str(10**20), 10**20), (1e20, 10**20), ("1" + "0" * 20_000, 10**20_000), ("7" * 12_000, "7" * 12_000),
    ("7" * 12_000 + ".0", "7" * 12_000), (10**6000, 10**6000), ("1e400", 10**400), ("1e999999999", "10e999999998"),
    # complex
    (3 + 4j, 3 + 4j), ("(3+4j)", 3 + 4j), ("3 + 4i", 3 + 4j), ("3-4i", "3-4i"), (5, 5 + 0j), ("-1.5e2j", -150j),
    ("2+i", 2 + 1j), ("2-j", "2-1j"),
    # truth
    (True, True), ("True", True), ("True.", True), ("true", True), ("TRUE", "True"), ("The answer is True.", True),
    (r"\boxed{\text{False}}", False), ("yes", True), ("No.", False), ("false", "False"), (False, "false"),
    # lists and sets
    ([1, 2], [1, 2]), ((1, 2.0), (1, 2)), ("[1, 2]", [1, 2]), ("1, 2 and 3", [1, 2, 3]), ("1, 2, and 3", [1, 2, 3]),
    ("1 and 2", [1, 2]), ("1, 2", "[1, 2]"), ("1;2", [1, 2]), ("1; 2", [1, 2]), ("1 2.5", [1, 2.5]),
    ("[1. 2.5]", [1, 2.5]),
    ("array([1. , 2.5], dtype=float32)", [1, 2.5]), ("(1,)", [1]), ("1,000, 2", [1000, 2]), ("1,2,3", [1, 2, 3]),
    ("[np.float64(1.0), np.float64(2.5)]", [1, 2.5]), ("[Fraction(1, 2), 3]", [0.5, 3]), ("x = [1, 2]", [1, 2]),
    ("x = 1, y = 2", [1, 2]), (r"\boxed{1, 2}", [1, 2]), ("The answers are 1, 2 and 3.", [1, 2, 3]), ("[]", []),
    ([], []),
    (np.array([1, 2]), [1, 2]), ([1, 2], np.array([1, 2])), (("1/2", "2"), [0.5, 2]), ("42", [42]), (42, [42]),
    ("(1, 2)", "(1, 2)"), ("1, 2", "(1, 2)"), ([1, 2], "(1, 2)"), ("{2, 1}", {1, 2}), (r"\{1, 2\}", "{2, 1}"),
    ([2, 1], {1, 2}), ("1 & 2", [1, 2]),
    # text
    ("Paris", "Paris"), ("  Paris \n", "Paris"), ("paris", "Paris"), ("PARIS", "Paris"), ("Paris.", "Paris"),
    ("'Paris'", "Paris"), ('"Paris"', "Paris"), ("**Paris**", "Paris"), (r"\boxed{Paris}", "Paris"),
    (r"\boxed{\text{Paris}}", "Paris"), ("The answer is Paris.", "Paris"), ("Answer: paris", "Paris"),
    ("#### Paris", "Paris"), ("New  York", "new york"), ("Straße", "STRASSE"), ("ﬁ", "fi"), ("apollo 11", "Apollo 11"),
    ("C++", "C++"), ("not Paris", "not Paris"), ("42 km", "42 km."), ("A", "a"), ("(B)", "(b)"),
]  # fmt: skip

REFUSED = [
    ("41", 42), (0.30001, 0.3), ("0.333", "1/3"), (1e-6, 0), (0, 1e-12), (2e-12, 1e-12), ("1e-400", 0.5), ("12", "11"),
    (10**20 + 1, 10**20), (str(10**20 + 1), 10**20), ("1" + "0" * 19_999 + "1", 10**20_000),
    ("7" * 11_999, "7" * 12_000),
    ("7" * 12_000, "7" * 11_999 + "8"), (10**6000 + 1, 10**6000), ("123456789100.0", 123456789012), ("0.42", "42%"),
    ("1j", 10**400), ("1j", Decimal("1e400")), ("1e400", 1j), ("1j", "9" * 400), (1j, 10**400), ("nan", 10**400),
    ("1e999999999", "1e-999999999"), ("10", "0b11"), (42, "41.9"), ("1", True), (1, True), ("not true", True),
    ("True or False", True), ("maybe", True), ("", True), (False, True), ("no", True), (True, 1), ("True", 1),
    (0, False),
    ("3+4i", 3 - 4j), (3, 3j), ("3+4j", 3), ("i", "1"), ([2, 1], [1, 2]), ([1], [1, 2]), ([1, 2, 3], [1, 2]),
    ("1, 2", [2, 1]),
    ([1, True], [1, 1]), ("[1, x]", [1, 2]), ("[1, [2]]", [1, 2]), ([[1]], [1]), ({"a": 1}, [1]), (None, [1]),
    ("[1, 2*pi]", [1, 2]), ("1, 2 or 3", [1, 2, 3]), ("not 1, 2", [1, 2]), ("1, not 2", [1, 2]), ("±1, 2", [1, 2]),
    ("1, ≤2", [1, 2]), ("12", [1, 2]), ("", [1]), ([1, 1], {1, 2}), ("{1, 2, 3}", {1, 2}), ("[0, 1]", "(0, 1)"),
    ("(0, 1)", "[0, 1]"), ("London", "Paris"), ("not Paris", "Paris"), ("The answer is not Paris", "Paris"),
    ("It is not true that the answer is Paris", "Paris"), ("Paris or London", "Paris"), ("Paris, London", "Paris"),
    ("Pari", "Paris"), ("", "Paris"), ("gemini 11", "apollo 11"), ("11", "apollo 11"), (5, "five"), ("C", "C++"),
    ({"a": 1}, "Paris"), (b"Paris", "Paris"), (["Paris"], "Paris"), ("x" * 300_000, "Paris"), ("1/2 or 1/3", "1/2"),
    ("⅔", "2/5"), ("1½", 0.5), ("²", 2), ("2²", 22), ("x = 1, y = 2", 2), ("x", "y"), ("\ud800", 42), ("\ud800",
    "Paris"),
]  # fmt: skip

UNDECIDED = [
    (42, None), (42, ""), ("", ""), ("x", "  "), (42, float("nan")), (42, float("inf")), ("nan", "\n"), (42, {"a": 1}),
    (42, [1, [2]]), (["x"], ["x"]), (True, [True]), (42, object()), (42, b"42"), (float("nan"), float("nan")),
    (42, complex("nan")), (42, Decimal("nan")),
]  # fmt: skip

EXPRESSIONS = [
    (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}", "right"), ("sqrt(2)/2", r"\frac{1}{\sqrt{2}}", "right"),
    ("√2/2", "sqrt(2)/2", "right"), ("sqrt(3)/2", r"\frac{1}{\sqrt{2}}", "wrong"), ("1+x", "x+1", "right"),
    ("x+2", "x+1", "wrong"), ("x**2+2*x+1", "(x+1)^2", "right"), ("x^10", "x^{10}", "right"), ("x^1", "x^{10}",
    "wrong"),
    ("2*pi", r"2\pi", "right"), ("2π", r"2\pi", "right"), ("6.283185307", r"2\pi", "right"), ("3.14", r"\pi", "wrong"),
    (r"\boxed{2\pi}", r"2\pi", "right"), ("The answer is $x+1$.", "x+1", "right"), ("the answer is not x+1", "x+1",
    "wrong"),
    ("not x+1", "x+1", "wrong"), ("y = 1+2x", "y=2x+1", "right"), ("y = 1+3x", "y=2x+1", "wrong"), ("hello", r"\pi",
    "wrong"),
    ("[0, 1)", "[0,1)", "right"), ("[0,1]", "[0,1)", "wrong"), ("(0,1)", "[0,1)", "wrong"), (r"\pm 2",
    r"\pm\sqrt{4}", "right"),
    ("-2", r"\pm\sqrt{4}", "wrong"), ("x < 3", "x<3", "right"), ("x > 3", "x<3", "wrong"), (r"x \leq 3", "x<3",
    "wrong"),
    ("2x", "2x", "right"), ("x*2", "2x", "right"), ("log(x)", r"\log(x)", "right"), ("", "x+1", "wrong"),
    ("__import__('os').system('x')", "x+1", "wrong"), ("x" * 3000, "x+1", "wrong"),
    ("(" * 999 + "1" + ")" * 999, "x+1", "wrong"),
]  # fmt: skip


def short(value):
    if type(value) is object:
        return "object()"
    text = repr(value) if not isinstance(value, int) or value.bit_length() < 10_000 else f"{value.bit_length()} bits"
    return text if len(text) <= 60 else f"{text[:30]}…{text[-9:]} {len(text)}"


def test_the_table_has_at_least_300_pairs():
    tables = (FORTY_TWO, NOT_FORTY_TWO, ACCEPTED, REFUSED, UNDECIDED, EXPRESSIONS)
    assert sum(map(len, tables)) >= 300
    for table in tables:
        pairs = [tuple(map(short, pair)) if isinstance(pair, tuple) else short(pair) for pair in table]
        assert len(set(pairs)) == len(pairs), [pair for pair in pairs if pairs.count(pair) > 1]


@pytest.mark.parametrize("answer", FORTY_TWO, ids=short)
def test_42_is_accepted_in_every_form(answer):
    for expected in (42, "42", 42.0) if answer != "42.0000000001" else (42.0, Decimal("42.0")):
        assert grade(answer, expected).verdict == "right", grade(answer, expected)


@pytest.mark.parametrize("answer", NOT_FORTY_TWO, ids=short)
def test_what_does_not_say_42_is_refused(answer):
    for expected in (42, "42", 42.0):
        assert grade(answer, expected).score == 0.0, grade(answer, expected)


@pytest.mark.parametrize(("answer", "expected"), ACCEPTED, ids=short)
def test_a_right_answer_is_accepted(answer, expected):
    assert grade(answer, expected).verdict == "right", grade(answer, expected)


@pytest.mark.parametrize(("answer", "expected"), REFUSED, ids=short)
def test_a_wrong_answer_is_refused(answer, expected):
    assert grade(answer, expected).score == 0.0, grade(answer, expected)


@pytest.mark.parametrize(("answer", "expected"), UNDECIDED, ids=short)
def test_without_a_readable_expected_answer_nothing_is_decided(answer, expected):
    assert grade(answer, expected).score is None
    assert "the expected answer is" in grade(answer, expected).reason


@pytest.mark.parametrize(("answer", "expected", "verdict"), EXPRESSIONS, ids=short)
def test_expressions_are_compared_by_math_verify(answer, expected, verdict):
    if not symbolic.is_installed():
        need("math", "math-verify is not installed")
    found = grade(answer, expected)
    assert found.score == (1.0 if verdict == "right" else 0.0), found


def test_the_repl_grades_as_the_transforms_do():
    texts = [answer for answer in (*FORTY_TWO, *NOT_FORTY_TWO) if isinstance(answer, str)]
    for answer in texts:
        assert correctness("42", answer) == grade(answer, 42).score
    for answer, expected in ACCEPTED:
        if isinstance(answer, str) and isinstance(expected, str):
            assert correctness(expected, answer) == 1.0


def test_an_answer_that_cannot_be_read_has_a_reason_and_one_that_is_wrong_has_none():
    assert (grade("41", 42).verdict, grade("41", 42).reason) == ("wrong", "")
    for answer in ("41 or 42", "not 42", "x ≤ 42", "1/0", "42 = 41", True, "", "1" * 2_000_000):
        assert grade(answer, 42).verdict == "invalid"
        assert grade(answer, 42).reason


@pytest.mark.parametrize(
    ("answer", "tolerance", "right"),
    [
        (42.4, 0.5, True), (42.6, 0.5, False), ("42.5", 0.5, True), (43, 1, True), (44, 1, False), (43, 0, False),
        ("41.999999999999", 0, False), (42 + 0.4j, 0.5, True), (42 + 0.6j, 0.5, False), ("1j", 1e300, True),
        ("1e999999999", 1e300, False),
    ],
)  # fmt: skip
def test_a_tolerance_is_how_far_off_an_answer_may_be(answer, tolerance, right):
    assert (grade(answer, 42, tolerance=tolerance).verdict == "right") is right


def test_integers_of_any_size_are_compared_exactly_and_in_bounded_time():
    huge = 10**1_000_000
    start = time.process_time()
    assert grade(huge, huge).verdict == "right"
    assert grade(huge + 1, huge).verdict == "wrong"
    assert grade(huge, 42).verdict == "wrong"
    assert grade(huge, 42.5).verdict == "invalid"
    assert grade("1" + "0" * 999_999, "1" + "0" * 999_999).verdict == "right"
    assert grade("1" + "0" * 999_998 + "1", "1" + "0" * 999_999).verdict == "wrong"
    assert time.process_time() - start < 20


@settings(deadline=None)
@given(st.integers())
@example(10**4000 + 1)
def test_integers_are_exact_in_every_notation(number):
    for text in (str(number), f"{number:,}", f"{number:_}", f"x = {number}", f"{number}.", hex(number)):
        assert grade(text, number).verdict == "right"
        assert grade(text, number + 1).verdict == "wrong"
    assert grade(number, str(number)).verdict == "right"


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_read_as_python_writes_them(number):
    assert matches(read_number(repr(number)), read_number(number), tolerance=0)
    assert float(read_number(repr(number)).real) == number


@settings(deadline=None)
@given(
    st.text(max_size=60) | st.text(alphabet="0123456789.,/ -+eE*^$%()[]{}=\\frac boxed≠±½", max_size=80),
    st.sampled_from([42, "42", [1, 2], True, "Paris", 3j, {1}]),
)
def test_any_text_has_a_verdict(text, expected):
    assert grade(text, expected).verdict in ("right", "wrong", "invalid")
    for read in (read_number, read_list):
        try:
            found = read(text)
        except ValueError:
            continue
        for number in found if isinstance(found, list) else [found]:
            assert Decimal(number.real).is_finite()


HOSTILE = [
    "1" * 10_000, "1 " * 5_000, "1 000" * 2_000, " 000".join(["1"] * 2_000), "1/" * 5_000, "=" * 10_000, "7=" * 5_000,
    "answer " * 1_400, "answer is " * 1_000, "\\boxed{" * 1_400, "{" * 10_000, "a(" * 5_000, "*" * 10_000, "<a" * 5_000,
    "array(" * 1_600, "\\frac{1}" * 1_250, "\\frac" * 2_000, "1," * 5_000, ",000" * 2_500, "1" + ",000" * 2_400 + "x",
    "1" + " 000" * 2_400 + "x", "-" * 10_000, "1e1" * 3_300, " " * 9_999 + "x", "1" + " " * 9_000 + "x", "½" * 9_000,
    "array(1" + ", a" * 3_000, "x" * 10_001, "1" * 10_000_000, "1e999999999 " * 800, "(" + "1" * 9_000 + "j",
    "not " * 2_500,
    "minus " * 1_600, "[" * 4_999 + "1" + "]" * 4_999, "[(" * 5_000, "9**9**9", "9**" * 3_000 + "9", "1, " * 3_000,
    " and " * 2_000, "0x" + "f" * 9_900, "é" * 107_000, "\\text{" * 30_000, "word " * 20_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text[:9]!r} {len(text)}")
def test_no_answer_takes_long(text):
    start = time.process_time()
    for expected in (42, "42", [1, 2], True, "Paris", {1}, 3j):
        assert grade(text, expected).score == 0.0
    assert time.process_time() - start < 5


def test_values_that_are_deep_or_endless_have_a_verdict():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    endless = []
    endless.append(endless)
    for value in (deep, endless):
        for expected in (42, [1], True, "Paris", {1}):
            assert grade(value, expected).score == 0.0


def test_hostile_expressions_are_refused_in_bounded_time():
    if not symbolic.is_installed():
        need("math", "math-verify is not installed")
    start = time.monotonic()
    for answer in ("x^{9^{9^{9}}}", r"\frac{" * 300, "9!!!!!!!!", r"\sum_{n=1}^{10^{10}} \frac{n!}{n^n}"):
        assert grade(answer, "x+1").score == 0.0
    assert grade("x+1", "1+x").verdict == "right"
    assert time.monotonic() - start < 60


def test_expressions_are_compared_in_any_thread_and_in_a_fork():
    if not symbolic.is_installed():
        need("math", "math-verify is not installed")
    verdicts = []
    threads = [threading.Thread(target=lambda: verdicts.append(grade("1+x", "x+1").verdict)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == ["right"] * 6
    script = (
        "import os\nfrom envweave.rewards import grade\nassert grade('1+x', 'x+1').score == 1.0\n"
        "if not os.fork():\n    os._exit(0 if grade('1+x', 'x+1').score == 1.0 else 1)\n"
        "assert os.waitstatus_to_exitcode(os.wait()[1]) == 0\nassert grade('2+x', 'x+1').score == 0.0"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_process_that_was_killed_while_it_was_idle_costs_no_answer():
    if not symbolic.is_installed():
        need("math", "math-verify is not installed")
    assert grade("1+x", "x+1").verdict == "right"
    symbolic._COMPARER.process.send_signal(signal.SIGKILL)
    symbolic._COMPARER.process.wait()
    assert grade("1+x", "x+1").verdict == "right"


def test_an_expression_is_undecided_if_math_verify_does_not_start(monkeypatch):
    if not symbolic.is_installed():
        need("math", "math-verify is not installed")
    symbolic._COMPARER.kill()
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert grade("1+x", "x+1").score is None
    monkeypatch.setattr(sys, "executable", "/bin/true")
    assert (grade("1+x", "x+1").score, grade("1+x", "x+1").reason) == (None, "math-verify does not start")


def test_without_math_verify_an_expression_is_undecided_unless_the_text_is_the_same(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    for answer in ("x + 1", "X + 1", " x+1.", "$x+1$", r"\boxed{x+1}", "The answer is x + 1."):
        assert grade(answer, "x + 1").verdict == "right"
    for answer in ("1 + x", "x + 2", "not x + 1"):
        assert grade(answer, "x + 1").score is None
        assert "envweave[math]" in grade(answer, "x + 1").reason
    assert grade("C", "C++").verdict == "wrong", "not an expression"


def test_an_expected_answer_is_read_once_for_many_answers():
    expected = Expected.read("1, 2 and 3")
    assert expected.grade([1, 2, 3]).verdict == "right"
    assert expected.grade([1, 2, 4]).verdict == "wrong"


def test_huge_exponents_are_compared_without_being_written_out():
    huge = read_number("1e999999999")
    assert not matches(huge, Number(42, whole=True), tolerance=None)
    assert matches(huge, read_number("10e999999998"), tolerance=None)
    assert not matches(huge, read_number("1j"), tolerance=None)

r"""A number is read in the forms in which it is printed and written, and what is not one number is not guessed."""

import time
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from envweave.rewards.answers import matches, read_list, read_number
from envweave.rewards.numerals import Number

FORTY_TWO = [
    "42", " 42\n", "42.0", "42.", "+42", "4.2e1", "4.2E+1", "420e-1", "4.2 × 10^1", "4.2*10**1", r"4.2 \times 10^{1}",
    "$42", "€42", "42 €", "42 %", "42%", r"42\%", r"\$42", "84/2", "84 / 2", "126/3", "41 2/2", r"\frac{84}{2}",
    r"\dfrac{84}{2}", r"\boxed{42}", r"so $\boxed{\frac{84}{2}}$ it is", r"\boxed{1} no, \boxed{42}", r"\(42\)",
    r"42\text{ km}", "x = 42", "x=42", "6 * 7 = 42", "x == 42", "= 42", "42 = x", "The answer is 42.", "ANSWER: 42",
    "The final answer is: 42!", "#### 42", "2 + 2 is 4\n#### 42", "**42**", "`42`", "'42'", '"42"', "(42)", "42 apples",
    "about 42 or so", "42 km/h", "<answer>42</answer>", "Fraction(84, 2)", "Decimal('42')", "Decimal(42)",
    "np.float64(42.0)", "np.int64(42)", "numpy.int32(42)", "float32(42.0)", "array(42)", "array(42., dtype=float32)",
    "tensor(42.)", "tensor(42., device='cuda:0')", "mpf('42.0')", "H2O makes 42", "f(x) is 42",
]  # fmt: skip

NO_NUMBER = [
    "", "   ", "forty-two", "True", "None", "nan", "NaN", "inf", "-inf", "Infinity", "1/0", "0/0", "Fraction(1, 0)",
    "between 41 and 42", "41-42", "41 or 42", "41, 42", "41; 42", "x = 41, y = 42", "x = 41 and y = 42", "6 * 7",
    "40 + 2", "2*pi", "2 pi", "2π", "pi/2", "sqrt(42)", "√42", "log(x, 42)",
    "42*x", "x**42", "x > 42", "x <= 42", "x != 42", "|42|", "1 / x",
    "10^2", "2**5", "6²", "42²", "1 ½", "½", "1.2.3", "1,00", "1,0000", "1.000,50", "3,14", "1 0000", "2024-01-02",
    "1/2/3",
    "10:30", "0x2A", "42km", "GPT-4", "- 42", "--42", "Result - 42", "[42]", "{'a': 42}", "1e9999999999", "٤٢",
    "四十二",
    "4.e", "42.x", "answer is not known", r"\boxed{}", r"\boxed{x}", "1..2", "(1..2+3j)",
]  # fmt: skip


@pytest.mark.parametrize("text", FORTY_TWO)
def test_forty_two_is_read_in_every_form(text):
    assert read_number(text).value == 42


@pytest.mark.parametrize("text", NO_NUMBER)
def test_what_is_not_one_number_is_not_guessed(text):
    with pytest.raises(ValueError, match=r"\w"):
        read_number(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-5", "-5"), ("−5", "-5"), ("－5", "-5"), ("-$5", "-5"), ("$-5", "-5"), ("x = -5", "-5"), ("(-5)", "-5"),
        ("1,000", "1000"), ("1,234,567.89", "1234567.89"), ("1 000", "1000"), ("1\u00a0000\u202f000", "1000000"),
        ("1_000", "1000"), (r"1{,}000", "1000"), (r"1\,000", "1000"), ("-1,000", "-1000"), ("$1,000.50", "1000.50"),
        (".5", "0.5"), ("-.5", "-0.5"), ("1/2", "0.5"), ("-1/2", "-0.5"), ("1 1/2", "1.5"), ("-1 1/2", "-1.5"),
        (r"-\frac{1}{2}", "-0.5"), (r"1\frac{1}{2}", "1.5"), ("Fraction(-1, 2)", "-0.5"), ("007", "7"), ("0", "0"),
        ("0.1", "0.1"), ("1e-400", "1e-400"), ("1e999999999", "1e999999999"), ("-1e-999999999", "-1e-999999999"),
    ],
)  # fmt: skip
def test_signs_groups_and_fractions(text, value):
    assert read_number(text).value == Decimal(value)


@pytest.mark.parametrize(
    ("text", "value"), [("3+4j", 3 + 4j), ("(3-4j)", 3 - 4j), ("3+4i", 3 + 4j), ("4j", 4j), ("-1.5e2j", -150j)]
)
def test_complex_numbers(text, value):
    assert read_number(text).value == value


@pytest.mark.parametrize(
    "value", [True, False, None, float("nan"), float("inf"), complex("nan"), [42], {"a": 1}, b"42"]
)
def test_a_value_of_another_kind_is_no_number(value):
    with pytest.raises(ValueError, match=r"truth value|not a finite number"):
        read_number(value)


@pytest.mark.parametrize("value", [42, 42.0, np.int64(42), np.float32(42), np.array(42), Decimal(42), 42 + 0j])
def test_values_that_are_numbers(value):
    assert read_number(value).value == 42


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([1, 2.5], "1 2.5"), ("[1, 2.5]", "1 2.5"), ("(1, 2.5)", "1 2.5"), ("1, 2.5", "1 2.5"), ("1; 2.5", "1 2.5"),
        ("1 2.5", "1 2.5"), ("[1. 2.5]", "1 2.5"), ("array([1. , 2.5], dtype=float32)", "1 2.5"), ("(1,)", "1"),
        ("[np.float64(1.0), np.float64(2.5)]", "1 2.5"), ("[Fraction(1, 2), 3]", "0.5 3"), ("x = [1, 2]", "1 2"),
        (r"\boxed{1, 2}", "1 2"), ("[]", ""), ([], ""), (np.array([1, 2]), "1 2"), (("1/2", "2"), "0.5 2"),
        ("42", "42"),
    ],
)  # fmt: skip
def test_lists_are_read_element_by_element(answer, expected):
    assert [number.value for number in read_list(answer)] == [Decimal(one) for one in expected.split()]


@pytest.mark.parametrize("answer", ["[1, x]", "[1, [2]]", [True], [[1]], {"a": 1}, 5, None, "[1, 2*pi]"])
def test_a_list_of_something_else_is_not_read(answer):
    with pytest.raises(ValueError, match=r"\w"):
        read_list(answer)


@settings(deadline=None)
@given(st.integers())
@example(10**4000 + 1)
def test_whole_numbers_of_any_size_are_exact(number):
    text = str(number)
    assert read_number(text) == (Decimal(text), True)
    assert matches(read_number(text), read_number(number), tolerance=None)
    assert not matches(read_number(text), read_number(number + 1), tolerance=None)
    assert not matches(read_number(number), read_number(number + 1), tolerance=None)
    assert read_number(f"{number:,}").value == number
    assert read_number(f"{number:_}").value == number


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_read_as_python_writes_them(number):
    assert matches(read_number(repr(number)), read_number(number), tolerance=0)
    assert float(read_number(repr(number)).value) == number


@settings(deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="0123456789.,/ -+eE*^$%()[]{}=\\frac boxed", max_size=80))
def test_any_text_is_a_finite_number_or_a_reason(text):
    for read in (read_number, read_list):
        try:
            found = read(text)
        except ValueError:
            continue
        for number in found if isinstance(found, list) else [found]:
            assert isinstance(number.value, complex) or Decimal(number.value).is_finite()


@pytest.mark.parametrize(
    "text",
    [
        "1" * 10_000, "1 " * 5_000, "1 000" * 2_000, " 000".join(["1"] * 2_000), "1/" * 5_000, "=" * 10_000,
        "answer " * 1_400, "\\boxed{" * 1_400, "{" * 10_000, "a(" * 5_000, "*" * 10_000, "<a" * 5_000, "array(" * 1_600,
        "\\frac{1}" * 1_250, "1," * 5_000, ",000" * 2_500, "1" + ",000" * 2_400 + "x", "1" + " 000" * 2_400 + "x",
        "-" * 10_000, "1e1" * 3_300, " " * 9_999 + "x", "1" + " " * 9_000 + "x", "array(1" + ", a" * 3_000,
        "x" * 10_001, "1" * 10_000_000, "1e999999999 " * 800, "(" + "1" * 9_000 + "j",
    ],
    ids=lambda text: f"{text[:9]!r} {len(text)}",
)  # fmt: skip
def test_no_text_takes_long(text):
    start = time.process_time()
    for read in (read_number, read_list):
        try:
            read(text)
        except ValueError:
            pass
    assert time.process_time() - start < 2.0


def test_huge_exponents_are_compared_without_being_written_out():
    huge = read_number("1e999999999")
    assert not matches(huge, Number(42, whole=True), tolerance=None)
    assert not matches(huge, Number(42, whole=True), tolerance=1e300)
    assert matches(huge, read_number("10e999999998"), tolerance=None)
    assert not matches(huge, read_number("1e-999999999"), tolerance=None)
    assert not matches(huge, read_number("1j"), tolerance=None)

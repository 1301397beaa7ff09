import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envweave.sandbox.guest.values import bounded_repr, portray, shorten

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(DATA)
def test_data_is_given_as_it_is(value: Any) -> None:
    assert portray(value, 1 << 20) == {"data": value}


def test_a_tuple_is_data() -> None:
    assert portray((1, 2), 100) == {"data": (1, 2)}


@pytest.mark.parametrize(
    "value", [{1}, b"x", 1j, float("nan"), float("inf"), {1: 2}, [object], {"a": [b"x"]}], ids=repr
)
def test_what_is_no_data_is_given_as_its_repr(value: Any) -> None:
    assert portray(value, 1000) == {"repr": repr(value)}


def test_a_subclass_of_data_is_not_data() -> None:
    class Text(str):
        __slots__ = ()

    assert portray(Text("x"), 100) == {"repr": "'x'"}
    assert portray({Text("x"): 1}, 100) == {"repr": "{'x': 1}"}
    assert portray([Text("x")], 100) == {"repr": "['x']"}


def test_what_is_nested_too_deep_is_not_data() -> None:
    value: list[Any] = []
    for _ in range(100):
        value = [value]
    assert "data" not in portray(value, 10_000)


def test_what_contains_itself_is_not_data() -> None:
    value: list[Any] = []
    value.append(value)
    assert "data" not in portray(value, 10_000)


def test_a_number_with_more_digits_than_python_writes_is_not_data() -> None:
    assert "data" not in portray(1 << 20_000, 1 << 20)


@pytest.mark.parametrize("value", ["x" * 2000, list(range(2000)), {str(n): n for n in range(2000)}, 1 << 10_000])
def test_data_over_the_limit_is_cut_and_said(value: Any) -> None:
    found = portray(value, 1000)
    assert found["cut"] is True
    assert len(found["repr"]) < 1100


@pytest.mark.parametrize("value", [b"x" * 5000, {*range(5000)}, frozenset(range(5000)), {n: n for n in range(5000)}])
def test_a_repr_over_the_limit_is_cut_and_said(value: Any) -> None:
    found = portray(value, 1000)
    assert found["cut"] is True
    assert len(found["repr"]) < 1100


def test_a_repr_that_its_object_makes_too_long_is_cut_and_said() -> None:
    class Wide:
        def __repr__(self) -> str:
            return "w" * 5000

    found = portray(Wide(), 1000)
    assert found["cut"] is True
    assert len(found["repr"]) < 1100


@pytest.mark.parametrize("kind", [ValueError, RecursionError, SystemExit, GeneratorExit])
def test_a_repr_that_raises_is_replaced(kind: type[BaseException]) -> None:
    class Bad:
        def __repr__(self) -> str:
            raise kind

    text, cut = bounded_repr(Bad(), 1000)
    assert "Bad" in text
    assert not cut


@pytest.mark.parametrize("kind", [KeyboardInterrupt])
def test_an_interrupt_in_a_repr_passes(kind: type[BaseException]) -> None:
    class Slow:
        def __repr__(self) -> str:
            raise kind

    with pytest.raises(kind):
        bounded_repr(Slow(), 1000)


def test_a_repr_that_is_no_text_is_replaced() -> None:
    class Bad:
        def __repr__(self) -> Any:
            return 5

    assert "Bad" in bounded_repr(Bad(), 1000)[0]


def test_a_repr_that_is_a_sly_text_becomes_plain_text() -> None:
    class Sly(str):
        __slots__ = ()

        def __len__(self) -> int:
            return 0

    class Bad:
        def __repr__(self) -> str:
            return Sly("y" * 5000)

    text, cut = bounded_repr(Bad(), 1000)
    assert type(text) is str
    assert str.__len__(text) < 1100
    assert cut


@given(st.text(), st.integers(2, 50))
def test_a_shortened_text_keeps_head_and_tail(text: str, limit: int) -> None:
    found = shorten(text, limit)
    if len(text) <= limit:
        assert found == text
    else:
        half = limit // 2
        assert found.startswith(text[:half])
        assert found.endswith(text[-half:])
        assert f"[{len(text) - 2 * half} characters cut]" in found


@pytest.mark.parametrize("power", [4300, 5000, 60_000])
def test_a_number_of_many_digits_is_written_out(power: int) -> None:
    assert portray(10**power, 1 << 16) == {"repr": "1" + "0" * power}
    assert portray([-(10**power)], 1 << 16) == {"repr": "[-1" + "0" * power + "]"}
    assert portray(Fraction(10**power, 3), 1 << 17) == {"repr": f"Fraction(1{'0' * power}, 3)"}


def test_a_number_of_too_many_digits_is_told_by_their_count() -> None:
    assert portray(10**70_000, 1 << 16) == {"repr": "<int of about 70001 digits>", "cut": True}
    assert portray({1: 10**200_000}, 1 << 30) == {"repr": "{1: <int of about 200001 digits>}"}


def test_how_many_digits_python_writes_is_the_codes_own_setting_afterwards() -> None:
    before = sys.get_int_max_str_digits()
    portray(10**5000, 1 << 16)
    assert sys.get_int_max_str_digits() == before


def test_a_repr_that_raises_spoils_only_itself() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    found, cut = bounded_repr([1, Bad(), {1: Bad()}, 10**5000], 10_000)
    told = "<Bad whose repr raises ZeroDivisionError>"
    assert found == f"[1, {told}, {{1: {told}}}, 1{'0' * 5000}]"
    assert not cut


def test_a_repr_ends_when_there_is_enough_of_it() -> None:
    asked = []

    class Leaf:
        def __repr__(self) -> str:
            asked.append(1)
            return "leaf"

    value: list[Any] = [Leaf()] * 300
    for _ in range(4):
        value = [value] * 300
    found = portray(value, 1000)
    assert found["cut"]
    assert len(found["repr"]) < 1100
    assert len(asked) < 10_000

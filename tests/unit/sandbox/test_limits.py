import json
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from envweave.errors import UsageError
from envweave.sandbox import LimitHit, Limits

NEVER_NONE = ("grace", "output_bytes", "return_bytes", "forks")
MAY_BE_ZERO = ("grace", "tool_calls", "forks")
NAMES = [each.name for each in fields(Limits)]
SIZES = [each.name for each in fields(Limits) if "int" in str(each.type)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [-1, "5", True, float("nan"), float("inf"), [1]], ids=repr)
def test_what_is_no_amount_is_refused(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        Limits(**{name: value})
    assert caught.value.hint


@pytest.mark.parametrize("name", NAMES)
def test_zero_is_refused_where_nothing_could_run(name: str) -> None:
    if name in MAY_BE_ZERO:
        assert getattr(Limits(**{name: 0}), name) == 0
        return
    with pytest.raises(UsageError, match=name):
        Limits(**{name: 0})


@pytest.mark.parametrize("name", NAMES)
def test_none_means_no_limit_where_that_can_be(name: str) -> None:
    if name not in NEVER_NONE:
        assert getattr(Limits(**{name: None}), name) is None
        return
    with pytest.raises(UsageError, match=name):
        Limits(**{name: None})


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_counts_are_whole(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        Limits(**{name: 1000.5})


@pytest.mark.parametrize("name", ["wall", "cpu", "grace", "tool_wall"])
def test_durations_may_be_whole(name: str) -> None:
    assert getattr(Limits(**{name: 5}), name) == 5


def test_python_itself_needs_some_open_files() -> None:
    with pytest.raises(UsageError, match="open_files"):
        Limits(open_files=10)


def test_an_unknown_limit_is_refused() -> None:
    with pytest.raises(TypeError):
        Limits(walls=5)  # type: ignore[call-arg]


def test_limits_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Limits().wall = 5  # type: ignore[misc]


def test_limits_are_data_and_can_be_pickled() -> None:
    limits = Limits(wall=5, memory_bytes=None)
    assert Limits(**json.loads(json.dumps(limits.to_data()))) == limits
    assert pickle.loads(pickle.dumps(limits)) == limits


@pytest.mark.parametrize(
    ("hit", "text"),
    [
        (LimitHit("wall", 0.3), "wall=0.3"),
        (LimitHit("tool_calls", 3), "tool_calls=3"),
        (LimitHit("memory_bytes", 512 << 20), "memory_bytes=536870912"),
        (LimitHit("output_bytes", 1_234_567), "output_bytes=1234567"),
    ],
    ids=str,
)
def test_a_limit_that_fired_is_written_with_its_value(hit: LimitHit, text: str) -> None:
    assert str(hit) == text

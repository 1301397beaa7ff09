"""Values become JSON where they must cross a boundary, and the field that cannot is named."""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pydantic
import pytest

from envweave.core.jsonable import to_json
from envweave.errors import NotJSONableError


class Colour(Enum):
    RED = "red"


class Level(int, Enum):
    HIGH = 3


class Model(pydantic.BaseModel):
    colour: Colour = Colour.RED


@dataclass
class Nested:
    model: Model
    grid: np.ndarray
    pair: tuple


def test_what_has_a_json_form_gets_it():
    value = Nested(Model(), np.eye(2, dtype=np.int8), (np.float32(0.5), np.bool_(True), Level.HIGH))
    data = to_json({"all": [value, None, True, 1, "x"]})
    assert data == {
        "all": [
            {"model": {"colour": "red"}, "grid": [[1, 0], [0, 1]], "pair": [0.5, True, 3]}, None, True, 1, "x"
        ]
    }  # fmt: skip
    assert json.loads(json.dumps(data)) == data


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"a": [1, {2}]}, r"obs\.a\[1\] is a set"),
        ({"a": {"b": b"x"}}, r"obs\.a\.b is a bytes"),
        ({"a": float("nan")}, r"obs\.a is nan"),
        ({"a": np.array([1.0, np.inf])}, r"obs\.a\[1\] is inf"),
        ({1: 2}, r"obs has the key 1"),
        ([object()], r"obs\[0\] is a object"),
        (Nested(Model(), np.zeros(1), ({1},)), r"obs\.pair\[0\] is a set"),
    ],
)
def test_the_field_that_has_no_json_form_is_named(value, field):
    with pytest.raises(NotJSONableError, match=field):
        to_json(value, where="obs")


def test_a_value_that_contains_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(NotJSONableError, match="nested deeper"):
        to_json(value)


class Side(str, Enum):  # noqa: UP042
    LEFT = "left"


def test_a_key_that_is_a_member_of_an_enum_of_text_has_its_value():
    assert to_json({Side.LEFT: Side.LEFT}) == {"left": "left"}
    assert type(next(iter(to_json({Side.LEFT: 1})))) is str


class Picture(pydantic.BaseModel):
    pixels: Any
    name: str = "x"


def test_an_array_in_a_pydantic_model_is_a_list():
    assert to_json(Picture(pixels=np.ones((1, 2)))) == {"pixels": [[1.0, 1.0]], "name": "x"}


def test_a_field_of_a_pydantic_model_that_has_no_json_form_is_named():
    with pytest.raises(NotJSONableError, match=r"value\.pixels is a object"):
        to_json(Picture(pixels=object()))

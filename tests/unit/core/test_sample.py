"""Random actions fit their schema."""

from random import Random
from typing import Literal

import gymnasium as gym
import numpy as np
import pydantic
import pytest

from envweave.core.membership import space_check
from envweave.core.sample import sample
from envweave.core.spaces import space_schema
from envweave.errors import UnsupportedError


class Inner(pydantic.BaseModel):
    word: str = pydantic.Field(min_length=3, max_length=5)


class Action(pydantic.BaseModel):
    count: int = pydantic.Field(ge=2, lt=5)
    even: int = pydantic.Field(ge=1, le=9, multiple_of=2)
    share: float = pydantic.Field(ge=0, le=1)
    side: Literal["left", "right"]
    inner: list[Inner]
    maybe: Inner | None
    pair: tuple[int, bool]


def test_a_drawn_action_fits_its_type_and_the_draw_is_reproducible():
    schema = Action.model_json_schema()
    drawn = [sample(schema, Random(seed)) for seed in range(200)]
    for value in drawn:
        Action.model_validate(value)
    assert drawn == [sample(schema, Random(seed)) for seed in range(200)]
    assert len({value["count"] for value in drawn}) == 3


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(4, start=-1),
        gym.spaces.Box(-1, 2, (2, 3)),
        gym.spaces.Box(-np.inf, np.inf, (2,)),
        gym.spaces.Box(0, 255, (2,), np.uint8),
        gym.spaces.MultiDiscrete([2, 5]),
        gym.spaces.MultiBinary(4),
        gym.spaces.Text(5, min_length=2),
    ],
    ids=str,
)
def test_a_value_drawn_for_a_space_is_in_the_space(space):
    check, schema = space_check(space), space_schema(space)
    for seed in range(50):
        assert space.contains(check(sample(schema, Random(seed))))


class Tree(pydantic.BaseModel):
    value: float = pydantic.Field(gt=0.5, lt=0.75)
    children: "list[Tree]"
    twin: "Tree | None"


def test_a_type_that_contains_itself_comes_to_an_end():
    for seed in range(100):
        Tree.model_validate(sample(Tree.model_json_schema(), Random(seed)))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "maximum": -50},
        {"type": "integer", "minimum": 0.5, "maximum": 1.5},
        {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
        {"type": "integer", "minimum": 100},
        {"type": "number", "maximum": -3},
        {"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 1},
    ],
)
def test_bounds_are_kept(schema):
    for seed in range(50):
        value = sample(schema, Random(seed))
        assert schema.get("minimum", value) <= value <= schema.get("maximum", value)
        assert schema.get("exclusiveMinimum", value - 1) < value < schema.get("exclusiveMaximum", value + 1)


@pytest.mark.parametrize("schema", [None, {}, {"type": "mystery"}])
def test_without_a_schema_there_is_no_random_action(schema):
    with pytest.raises(UnsupportedError, match="no random action"):
        sample(schema, Random(0))


def test_an_example_of_the_authors_is_drawn_before_anything_else():
    schema = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "examples": ["x = 1", "print(x)"]},
            "hint": {"type": "string", "default": "", "examples": ["short"]},
            "note": {"type": "string", "default": ""},
        },
        "required": ["code"],
    }
    drawn = [sample(schema, Random(seed)) for seed in range(50)]
    assert {value["code"] for value in drawn} == {"x = 1", "print(x)"}
    assert {value["hint"] for value in drawn} == {"short"}
    assert 15 < sum("note" in value for value in drawn) < 35, "a field with a default, in about half of the draws"


def test_an_optional_field_that_cannot_be_drawn_is_left_out():
    schema = {"type": "object", "properties": {"anything": {"default": None}, "count": {"type": "integer"}}}
    assert {key for seed in range(20) for key in sample(schema, Random(seed))} == {"count"}


@pytest.mark.parametrize("pattern", ["^[xyz]*$", "^[a-c]+$", r"^\p{L}*$", "("])
def test_the_characters_that_a_pattern_allows_are_drawn(pattern):
    drawn = {sample({"type": "string", "pattern": pattern, "minLength": 2}, Random(seed)) for seed in range(20)}
    assert len(drawn) > 1
    if pattern.startswith("^["):
        assert all(set(text) <= set(pattern) | {"b"} for text in drawn)


@pytest.mark.parametrize("examples", [[], None])
def test_without_an_example_a_value_is_drawn_as_ever(examples):
    assert sample({"type": "integer", "minimum": 3, "maximum": 3, "examples": examples}, Random(0)) == 3


def test_examples_of_a_referred_type_count_too():
    schema = {"$ref": "#/$defs/Word", "$defs": {"Word": {"type": "string", "examples": ["here"]}}}
    assert sample(schema, Random(0)) == "here"


def test_an_example_belongs_to_the_sample_and_not_to_the_schema():
    schema = {"type": "array", "items": {"type": "integer"}, "examples": [[1]]}
    sample(schema, Random(0)).append(2)
    assert schema["examples"] == [[1]]

from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from envweave.errors import UsageError
from envweave.tools import Tool, ToolError, ToolRegistry


@dataclass
class Place:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


class Wish(BaseModel):
    what: str = Field(min_length=1)
    where: Place | None = None


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(TypedDict):
    width: int


def properties(function):
    return Tool.of(function).input_schema["properties"]


def test_no_parameters_are_an_empty_object():
    def now():
        """The time."""

    assert Tool.of(now).input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert Tool.of(now).output_schema is None


def test_parameters_without_types_take_anything():
    def same(x, y=2):
        return x, y

    assert Tool.of(same).input_schema["properties"] == {"x": {}, "y": {"default": 2}}
    assert Tool.of(same).input_schema["required"] == ["x"]
    assert Tool.of(same).invoke({"x": {"any": [1]}}) == ({"any": [1]}, 2)


def test_defaults_are_told_where_json_can_carry_them_and_are_the_functions_own():
    unique = object()

    def f(a: int = 1, b: list[int] = [1], c: Place = Place(1), d: Any = unique, e: Path = Path("x"), g: None = None):  # noqa: B006, B008
        return d is unique and c

    found = properties(f)
    assert found["a"]["default"] == 1
    assert found["b"]["default"] == [1]
    assert found["c"]["default"] == {"x": 1, "y": 0, "tags": []}
    assert "default" not in found["d"]
    assert found["g"]["default"] is None
    assert Tool.of(f).invoke({}) == Place(1)


def test_keyword_only_and_positional_only_parameters_are_both_called_by_name():
    def f(a, b=2, /, c=3, *, d, e=5):
        return a, b, c, d, e

    tool = Tool.of(f)
    assert tool.invoke({"a": 1, "d": 4}) == (1, 2, 3, 4, 5)
    assert tool.invoke({"a": 1, "c": 30, "d": 4}) == (1, 2, 30, 4, 5)
    assert tool.as_function()(1, d=4) == (1, 2, 3, 4, 5)
    with pytest.raises(TypeError, match="too many positional"):
        tool.as_function()(1, 2, 3, 4)


@pytest.mark.parametrize("function", [lambda *words: words, lambda a, **rest: rest])
def test_parameters_without_names_are_refused(function):
    with pytest.raises(UsageError, match=r"odd takes \*"):
        Tool.of(function, name="odd")


def test_data_becomes_what_the_types_say():
    def f(place: Place, wish: Wish, colour: Colour, size: Size, many: tuple[int, ...], which: set[str]):
        return place, wish, colour, size, many, which

    data = {
        "place": {"x": 1, "tags": ["a"]}, "wish": {"what": "ice", "where": {"x": "2"}}, "colour": "blue",
        "size": {"width": 3}, "many": [1, 2], "which": ["a", "a"],
    }  # fmt: skip
    place, wish, colour, size, many, which = Tool.of(f).invoke(data)
    assert place == Place(1, 0, ["a"])
    assert wish == Wish(what="ice", where=Place(2))
    assert colour is Colour.BLUE
    assert size == {"width": 3}
    assert many == (1, 2)
    assert which == {"a"}
    with pytest.raises(ToolError, match=r"f: wish\.what: string should have at least 1 character"):
        Tool.of(f).invoke({**data, "wish": {"what": ""}})


def test_two_types_of_one_name_are_kept_apart():
    def make(kind):
        @dataclass
        class Thing:
            value: kind

        return Thing

    numbers, words = make(int), make(str)

    def f(a, b):
        return a.value, b.value

    f.__annotations__ = {"a": numbers, "b": words}
    assert Tool.of(f).invoke({"a": {"value": 1}, "b": {"value": "x"}}) == (1, "x")
    assert len(Tool.of(f).input_schema["$defs"]) == 2


def test_choices_and_limits_are_in_the_schema():
    def f(
        kind: Literal["a", "b"], count: Annotated[int, Field(ge=0, description="how many")], maybe: int | None = None
    ):
        return count

    found = properties(f)
    assert found["kind"]["enum"] == ["a", "b"]
    assert found["count"] == {"type": "integer", "minimum": 0, "description": "how many"}
    assert found["maybe"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    with pytest.raises(ToolError, match="greater than or equal to 0"):
        Tool.of(f).invoke({"kind": "a", "count": -1})
    assert str(Tool.of(f).as_function().__signature__).startswith("(kind: Literal['a', 'b'], count: int, maybe: ")


def test_descriptions_come_from_annotations_then_from_the_docstring():
    def f(a: Annotated[str, "the first"], b: int, c: int = 0):
        """Do it.

        With care.

        Args:
            a: not this
            b (int): the second,
                on two lines
            c: the third: with a colon

        Returns:
            Nothing.
        """

    found = properties(f)
    assert [found[name]["description"] for name in "abc"] == [
        "the first",
        "the second, on two lines",
        "the third: with a colon",
    ]
    assert Tool.of(f).description == "Do it.\n\nWith care.\n\nReturns:\n    Nothing."
    assert "Args:" in Tool.of(f).as_function().__doc__


def test_the_other_way_to_write_a_docstring_is_read_too():
    def f(a: str, b: int = 0):
        """Do it.

        :param a: the first
            of them
        :param int b: the second
        :returns: nothing
        """

    found = properties(f)
    assert found["a"]["description"] == "the first of them"
    assert found["b"]["description"] == "the second"
    assert Tool.of(f).description == "Do it.\n\n:returns: nothing"


@pytest.mark.parametrize(
    ("type_", "schema"),
    [
        (int, {"type": "integer"}),
        (list[str], {"items": {"type": "string"}, "type": "array"}),
        (None, None),
        (Any, None),
    ],
)
def test_what_is_returned_is_in_the_schema_where_it_is_said(type_, schema):
    def f():
        return None

    f.__annotations__ = {"return": type_}
    assert Tool.of(f).output_schema == schema
    assert ("outputSchema" in ToolRegistry(f).schemas()[0]) == (schema is not None)


def test_a_type_that_json_cannot_carry_is_named():
    def f(a: int, b: threading_lock):
        return a

    with pytest.raises(UsageError, match=r"the parameter `b: .*` of f has no JSON form"):
        Tool.of(f)


threading_lock = type("Lock", (), {})


def test_a_type_that_nobody_knows_is_named():
    def f(a: "Nowhere"):  # noqa: F821
        return a

    with pytest.raises(UsageError, match="the types of f cannot be read: NameError: name 'Nowhere' is not defined"):
        Tool.of(f)


def test_methods_partials_and_objects_are_tools():
    class Counter:
        """Counts."""

        def __init__(self):
            self.count = 0

        def add(self, by: int = 1) -> int:
            """Add to it."""
            self.count += by
            return self.count

        def __call__(self, to: int) -> int:
            self.count = to
            return to

    counter = Counter()
    assert Tool.of(counter.add).invoke({"by": 2}) == 2
    assert Tool.of(partial(counter.add, 5), name="five").invoke({}) == 7
    assert Tool.of(counter, name="put").invoke({"to": 1}) == 1
    assert list(properties(counter.add)) == ["by"]


def test_names_that_mean_something_elsewhere_are_only_names():
    def f(self: int, cls: int, name: int, metadata: int, _private: int = 0, model_config: int = 0):
        return self, cls, name, metadata, _private, model_config

    given = {"self": 1, "cls": 2, "name": 3, "metadata": 4, "_private": 5, "model_config": 6}
    assert Tool.of(f).invoke(given) == (1, 2, 3, 4, 5, 6)

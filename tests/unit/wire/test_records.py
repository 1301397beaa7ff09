"""Objects that are generated from a server's schema: they behave like those of the environment's own classes."""

import copy
import dataclasses
import json
import pickle
from dataclasses import dataclass, field
from enum import Enum, IntEnum, IntFlag, StrEnum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

import envweave as ew
from envweave.core.jsonable import to_json
from envweave.core.schema import full_schema
from envweave.wire.records import Record, record_type, schema_reader

if TYPE_CHECKING:
    from somewhere import Unknown


def returned(type_, value):
    """The value after a way over the wire, to someone who knows nothing but the schema."""
    schema = json.loads(json.dumps(full_schema(type_)))
    reader = schema_reader(schema)
    data = json.loads(json.dumps(to_json(value)))
    return data if reader is None else reader(data)


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class OnlyOne(Enum):
    ONE = "one"


class Level(IntEnum):
    LOW = 1


class Name(StrEnum):
    ANN = "ann"


class Text(str, Enum):  # noqa: UP042
    A = "a"


class Number(int, Enum):
    ONE = 1


class Bits(IntFlag):
    READ = 1
    WRITE = 2


@dataclass
class Item:
    """A thing."""

    name: str
    weight: float | None = None
    parts: "list[Item]" = field(default_factory=list)


@dataclass
class Nothing:
    """No fields at all."""


class Known(TypedDict):
    item: Item


class Card(BaseModel):
    colour: Colour
    other: "Card | None" = None


@dataclass
class Everything(ew.Observation):
    item: Item
    maybe: Item | None
    items: list[Item]
    by_name: dict[str, list[Item]]
    pair: tuple[int, Item]
    row: tuple[Item, ...]
    colour: Colour
    only: OnlyOne
    level: Level
    name: Name
    text: Text
    number: Number
    bits: Bits
    known: Known
    card: Card
    nothing: Nothing
    anything: Any
    either: Item | Nothing | str


items = st.recursive(
    st.builds(Item, st.text(), st.none() | st.integers()),
    lambda inner: st.builds(Item, st.text(), st.none(), st.lists(inner, max_size=2)),
    max_leaves=4,
)
scalars = st.none() | st.booleans() | st.integers() | st.text()
everything = st.builds(
    Everything,
    item=items,
    maybe=st.none() | items,
    items=st.lists(items, max_size=2),
    by_name=st.dictionaries(st.text(), st.lists(items, max_size=2), max_size=2),
    pair=st.tuples(st.integers(), items),
    row=st.lists(items, max_size=2).map(tuple),
    colour=st.just(Colour.RED),
    only=st.sampled_from(OnlyOne),
    level=st.sampled_from(Level),
    name=st.sampled_from(Name),
    text=st.sampled_from(Text),
    number=st.sampled_from(Number),
    bits=st.just(Bits.READ),
    known=st.fixed_dictionaries({"item": items}),
    card=st.builds(Card, colour=st.just(Colour.RED), other=st.just(Card(colour=Colour.RED))),
    nothing=st.builds(Nothing),
    anything=st.dictionaries(st.text(), scalars, max_size=2),
    either=items | st.builds(Nothing) | st.text(),
    metadata=st.dictionaries(st.text(), scalars, max_size=2),
)


@given(everything)
def test_a_generated_object_is_equal_to_the_environment_s_own_and_looks_the_same(value):
    found = returned(Everything, value)
    assert isinstance(found, Record)
    assert found == value
    assert value == found
    expected = repr(value).replace(repr(value.bits), "1")  # a combination of flags has no name in a schema
    assert repr(found) == expected
    assert to_json(found) == to_json(value)
    assert type(found.known) is dict
    assert (found.text == "a", found.number + 1, found.level + 1, str(found.name)) == (True, 2, 2, "ann")
    assert (str(found.text), str(found.number), f"{found.level}") == (str(value.text), str(value.number), "1")


@given(everything)
def test_a_generated_object_pickles_and_copies(value):
    found = returned(Everything, value)
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), copy.copy(found)):
        assert again == found
        assert type(again) is type(found)
        assert repr(again) == repr(found)
        assert type(again).__doc__ == type(found).__doc__


@given(st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)))
def test_data_of_any_shape_is_never_an_error(data):
    for type_ in (Everything, Item, Known, Card, list[Item], dict[str, Item], tuple[Item, int]):
        schema_reader(full_schema(type_))(data)


def test_objects_of_different_content_differ():
    found = returned(Item, Item("a"))
    assert found != Item("b")
    assert found != returned(Item, Item("b"))
    assert found != "a"
    assert found != Item
    assert found != Item({1, 2})  # which has no JSON form
    assert found == {"name": "a", "weight": None, "parts": []}


def test_it_is_a_dataclass():
    found = returned(Item, Item("a", 1.0, [Item("b")]))
    assert [each.name for each in dataclasses.fields(found)] == ["name", "weight", "parts"]
    assert dataclasses.asdict(found) == dataclasses.asdict(Item("a", 1.0, [Item("b")]))
    assert dataclasses.replace(found, name="c") == Item("c", 1.0, [Item("b")])
    assert type(found)("d").name == "d"
    match found:
        case object(name=name, parts=[object(name=inner)]):
            assert (name, inner) == ("a", "b")
    with pytest.raises(TypeError):
        hash(found)


def test_it_can_be_changed_and_a_copy_is_independent():
    found = returned(Item, Item("a", None, [Item("b")]))
    twin = copy.deepcopy(found)
    found.parts[0].name = "c"
    found.name = "d"
    assert twin == Item("a", None, [Item("b")])


def test_fields_that_the_schema_does_not_know_are_kept():
    read = schema_reader(full_schema(Item))
    data = {"name": "a", "colour": "red", "my-key": 1, "class": 2, "": 3}
    found = read(data)
    assert found.colour == "red"
    assert getattr(found, "my-key") == 1
    assert to_json(found) == data
    assert pickle.loads(pickle.dumps(found)) == found
    assert "weight" not in vars(found)


@pytest.mark.parametrize("data", [{}, {"weight": 1}, [], "text", None, 3])
def test_data_without_a_required_key_stays_data(data):
    found = schema_reader(full_schema(Item))(data)
    assert found == data
    assert type(found) is type(data)


def test_objects_of_one_kind_have_one_class():
    read = schema_reader(full_schema(Item))
    assert type(read({"name": "a"})) is type(read({"name": "b"}))
    assert type(returned(Colour, Colour.RED)) is type(returned(Everything.__annotations__["colour"], Colour.RED))
    assert record_type("A", ("x",)) is record_type("A", ("x",))


def test_a_generated_enum_is_equal_to_the_environment_s_own():
    red, pair = returned(Colour, Colour.RED), returned(Colour, Colour.PAIR)
    assert (red.name, red.value, repr(red), str(red)) == ("RED", "red", repr(Colour.RED), str(Colour.RED))
    assert red == Colour.RED
    assert Colour.RED == red  # noqa: SIM300
    assert red != Colour.PAIR
    assert red != OnlyOne.ONE
    assert {red: 1}[Colour.RED] == 1
    assert pair == Colour.PAIR
    assert returned(Level, Level.LOW) == Level.LOW
    assert returned(Name, Name.ANN) == Name.ANN
    for member in (red, pair, returned(Level, Level.LOW), returned(Text, Text.A)):
        assert pickle.loads(pickle.dumps(member)) is member
        assert copy.deepcopy(member) is member


@dataclass
class Opened:
    at: int
    kind: Literal["opened"] = "opened"


@dataclass
class Closed:
    at: int
    kind: Literal["closed"] = "closed"


@dataclass
class Moved:
    at: int
    to: int


@pytest.mark.parametrize("value", [Opened(1), Closed(2), Moved(1, 2), Item("a")])
def test_the_members_of_a_union_are_told_apart(value):
    found = returned(Opened | Closed | Moved | Item, value)
    assert repr(found) == repr(value)


@dataclass
class Picture:
    image: npt.NDArray[np.uint8]
    plain: np.ndarray
    maybe: np.ndarray | None
    frames: list[np.ndarray]
    gain: np.float32
    item: Item


def test_arrays_in_objects_stay_arrays():
    image = np.arange(4, dtype=np.uint8).reshape(2, 2)
    value = Picture(image, image * 0.5, None, [image * 1.5], np.float32(0.1), Item("a"))
    found = returned(Picture, value)
    assert repr(found) == repr(value)
    assert found == value
    assert type(found.item).__name__ == "Item"


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "string"},
        {"type": "array"},
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "#"},
        {"anyOf": [{"type": "null"}, True]},
        {"type": ["object", "null"]},
    ],
    ids=str,
)
def test_a_schema_that_describes_no_objects_leaves_data_as_it_is(schema):
    read = schema_reader(schema)
    for data in ({"a": 1}, [1], "text", None):
        assert data == (data if read is None else read(data))


def test_the_schemas_of_older_versions_of_pydantic_are_read():
    inner = {"title": "Inner", "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    part = {"allOf": [{"$ref": "#/definitions/Inner"}], "default": None}
    schema = {"title": "Outer", "type": "object", "properties": {"inner": part}, "definitions": {"Inner": inner}}
    assert repr(schema_reader(schema)({"inner": {"x": 1}})) == "Outer(inner=Inner(x=1))"


@dataclass
class PartlyUnknown:
    unknown: "Unknown"


class Odd:
    """Of no kind that pydantic knows."""


@pytest.mark.parametrize("type_", [PartlyUnknown, list[PartlyUnknown]])
def test_a_type_that_refers_to_an_unknown_name_has_no_schema(type_):
    assert full_schema(type_) is None


def test_a_part_of_an_unknown_type_may_be_anything():
    @dataclass
    class HasOdd:
        odd: Odd
        item: Item

    found = schema_reader(full_schema(HasOdd))({"odd": [1], "item": {"name": "a"}})
    assert (found.odd, found.item.name) == ([1], "a")

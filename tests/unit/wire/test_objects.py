"""Objects of types that are known: value, to data, to an equal value of the same type."""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field

import envweave as ew
from envweave.core.jsonable import to_json
from envweave.wire.objects import type_reader

if TYPE_CHECKING:
    from somewhere import Unknown


def read(type_, data):
    """What the reader makes of data that went through JSON."""
    reader = type_reader(type_)
    data = json.loads(json.dumps(data))
    return data if reader is None else reader(data)


def returned(type_, value):
    """The value after a way over the wire."""
    return read(type_, to_json(value))


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    LOW = 1


class Name(StrEnum):
    ANN = "ann"


@dataclass
class Item:
    name: str
    weight: float | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Tree:
    value: int
    children: "list[Tree]" = field(default_factory=list)
    parent_names: "dict[str, Tree | None]" = field(default_factory=dict)


class Point(NamedTuple):
    x: int
    item: Item


class Known(TypedDict, total=False):
    item: Item
    count: int


class Card(BaseModel):
    name: Name
    items: list[Item] = []


@dataclass(frozen=True, slots=True)
class Frozen:
    at: tuple[int, int]
    item: Item


@dataclass
class Everything(ew.Observation):
    item: Item
    maybe: Item | None
    items: list[Item]
    sequence: Sequence[Item]
    by_name: dict[str, Item]
    by_enum: dict[Name, Item]
    mapping: Mapping[str, list[Item]]
    pair: tuple[int, Item]
    row: tuple[Item, ...]
    empty: tuple[()]
    colour: Colour
    level: Level
    name: Name
    tree: Tree
    point: Point
    known: Known
    card: Card
    frozen: Frozen
    text: str | int
    anything: Any
    kind: Literal["a", "b"] = "a"
    shared: ClassVar[Item] = Item("shared")


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
data = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
finite = st.floats(allow_nan=False, allow_infinity=False)
items = st.builds(Item, st.text(), st.none() | finite, st.lists(st.text(), max_size=2))
trees = st.recursive(
    st.builds(Tree, st.integers()),
    lambda inner: st.builds(
        Tree,
        st.integers(),
        st.lists(inner, max_size=2),
        st.dictionaries(st.text(), st.none() | inner, max_size=2),
    ),
    max_leaves=5,
)
everything = st.builds(
    Everything,
    item=items,
    maybe=st.none() | items,
    items=st.lists(items, max_size=3),
    sequence=st.lists(items, max_size=2),
    by_name=st.dictionaries(st.text(), items, max_size=2),
    by_enum=st.dictionaries(st.sampled_from(Name), items, max_size=1),
    mapping=st.dictionaries(st.text(), st.lists(items, max_size=2), max_size=2),
    pair=st.tuples(st.integers(), items),
    row=st.lists(items, max_size=3).map(tuple),
    empty=st.just(()),
    colour=st.sampled_from(Colour),
    level=st.sampled_from(Level),
    name=st.sampled_from(Name),
    tree=trees,
    point=st.builds(Point, st.integers(), items),
    known=st.fixed_dictionaries({}, optional={"item": items, "count": st.integers()}),
    card=st.builds(Card, name=st.sampled_from(Name), items=st.lists(items, max_size=2)),
    frozen=st.builds(Frozen, st.tuples(st.integers(), st.integers()), items),
    text=st.text() | st.integers(),
    anything=data,
    kind=st.sampled_from(["a", "b"]),
    done=st.booleans(),
    reward=st.none() | finite,
    metadata=st.dictionaries(st.text(), data, max_size=2),
)


@given(everything)
def test_a_value_comes_back_equal_and_of_the_same_type(value):
    found = returned(Everything, value)
    assert found == value
    assert repr(found) == repr(value)
    assert type(found.known) is dict


@given(data)
def test_data_of_any_shape_is_never_an_error(value):
    for type_ in (Everything, Tree, Colour, Card, Point, Known, Frozen, tuple[Item, ...], dict[str, Item], np.ndarray):
        read(type_, value)


@given(st.lists(items | st.builds(Frozen, st.tuples(st.integers(), st.integers()), items) | st.none() | trees))
def test_the_members_of_a_union_are_told_apart_by_their_fields(values):
    assert returned(list[Item | Frozen | Tree | None], values) == values


@dataclass
class Small:
    x: int


@dataclass
class Large:
    x: int
    y: int = 0


@dataclass
class Opened:
    at: int
    kind: Literal["opened"] = "opened"


@dataclass
class Closed:
    at: int
    kind: Literal["closed"] = "closed"


class Model(BaseModel):
    x: int
    z: int = 0


@pytest.mark.parametrize("type_", [Small | Large, Large | Small, Model | Large | Small, Small | Model | Large])
@pytest.mark.parametrize("value", [Small(1), Large(1), Large(1, 2)])
def test_of_several_types_that_fit_the_one_with_exactly_these_fields_is_meant(type_, value):
    assert returned(type_, value) == value


@pytest.mark.parametrize("type_", [Opened | Closed, Closed | Opened, list[Closed] | Closed | Opened])
@pytest.mark.parametrize("value", [Opened(1), Closed(2)])
def test_a_literal_tells_types_with_the_same_fields_apart(type_, value):
    assert returned(type_, value) == value


def test_lists_and_dicts_beside_objects_are_told_apart():
    type_ = dict[str, Item] | Item | list[Small] | list[Item]
    for value in (Item("a"), {"b": Item("b")}, [Small(1)], [Item("c")], [], {}):
        assert returned(type_, value) == value


def test_the_union_of_a_type_with_plain_data_keeps_the_data():
    for value in ("text", 3, None, [1], {"no": "item"}, Item("a")):
        assert returned(Item | str | int | None, value) == value


# Dataclasses of every kind.


def test_missing_keys_have_their_defaults_and_no_two_objects_share_one():
    one, other = read(Item, {"name": "a"}), read(Item, {"name": "a"})
    assert one == other == Item("a")
    one.tags.append("x")
    assert other.tags == []


@pytest.mark.parametrize("value", [{}, {"weight": 1.0}, [], "text", None, 3, [{"name": "a"}]])
def test_data_without_a_required_key_stays_data(value):
    assert read(Item, value) == value
    assert type(read(Item, value)) is type(value)


def test_keys_that_the_class_does_not_have_become_attributes():
    found = read(Item, {"name": "a", "colour": "red"})
    assert type(found) is Item
    assert (found.name, found.colour) == ("a", "red")


def test_a_class_with_slots_has_no_room_for_other_keys_so_that_data_stays_data():
    value = {"at": [1, 2], "item": {"name": "a"}, "more": 1}
    assert read(Frozen, value) == value


@dataclass
class Painted(Item):
    colour: Colour = Colour.RED


def test_the_fields_choose_a_subclass():
    assert returned(Item, Painted("a")) == Painted("a")
    assert type(returned(list[Item], [Painted("a"), Item("b")])[0]) is Painted


@dataclass
class Prepared:
    text: str
    size: int = field(init=False)
    seen: int = 0

    def __post_init__(self):
        self.size = len(self.text)
        self.seen += 1
        self.cache = {}


def test_post_init_runs_and_does_not_change_what_was_sent():
    value = Prepared("abc")
    value.size = 7
    found = returned(Prepared, value)
    assert (found, found.cache) == (value, {})
    assert read(Prepared, {"text": "abc"}).size == 3


@dataclass
class Checked:
    number: int

    def __post_init__(self):
        if self.number < 0:
            raise ValueError("negative")


def test_what_post_init_raises_is_not_an_error():
    assert read(Checked, {"number": -1}).number == -1


@dataclass
class WithInitVar:
    total: int = field(init=False, default=0)
    start: InitVar[int] = 0

    def __post_init__(self, start):
        self.total = start + 1


def test_arguments_of_the_constructor_that_are_not_fields_are_not_needed():
    assert returned(WithInitVar, WithInitVar(start=3)).total == 4


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = field(default_factory=list)


def test_a_generic_dataclass_has_the_types_of_its_arguments():
    value = Box(Item("a"), [Item("b")])
    assert returned(Box[Item], value) == value
    assert read(Box, {"content": {"name": "a"}}) == Box({"name": "a"})


@dataclass
class PartlyUnknown:
    unknown: "Unknown"
    item: Item


def test_a_hint_that_cannot_be_resolved_leaves_its_field_as_data_and_no_other():
    assert read(PartlyUnknown, {"unknown": {"a": 1}, "item": {"name": "a"}}) == PartlyUnknown({"a": 1}, Item("a"))


def test_a_class_that_is_defined_in_a_function_is_read():
    @dataclass
    class Local:
        item: Item
        again: "Local | None" = None

    value = Local(Item("a"), Local(Item("b")))
    assert returned(Local, value) == value


# Other types.


Alias = NewType("Alias", Item)


@pytest.mark.parametrize(
    "type_", [Alias, Annotated[Item, "note"], Annotated[Item, ["not hashable"]], Item | None], ids=str
)
def test_names_for_types_are_looked_through(type_):
    assert returned(type_, Item("a")) == Item("a")


@pytest.mark.parametrize("type_", [Any, object, int, str, dict, list, list[int], dict[str, Any], int | None, "Item", 3])
def test_types_without_objects_need_no_reader(type_):
    assert type_reader(type_) is None


def test_tuples_are_made_of_lists():
    assert read(tuple, [1, 2]) == (1, 2)
    assert read(tuple[int, ...], [1, 2]) == (1, 2)
    assert read(tuple[int, int], [1, 2, 3]) == (1, 2, 3)
    assert read(tuple[int, int], {"a": 1}) == {"a": 1}
    assert read(Point, [1]) == [1]
    assert read(list[tuple[Item, int]], [[{"name": "a"}, 1]]) == [(Item("a"), 1)]


def test_enums_are_found_by_value():
    assert read(Colour, "red") is Colour.RED
    assert read(Colour, [1, 2]) is Colour.PAIR
    assert read(Colour, "none") == "none"
    assert read(Colour, {"a": 1}) == {"a": 1}
    assert read(dict[Name, Colour], {"ann": "red", "bob": "red"}) == {Name.ANN: Colour.RED, "bob": Colour.RED}
    assert read(OrderedDict[str, Colour], {"ann": "red"}) == {"ann": Colour.RED}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    number: int = Field(alias="theNumber")
    colour: Colour

    @computed_field
    @property
    def double(self) -> int:
        return 2 * self.number


def test_pydantic_models_come_back_whatever_their_configuration():
    value = Strict(theNumber=2, colour=Colour.RED)
    assert returned(Strict, value) == value
    assert read(Strict, {"number": "no"}) == {"number": "no"}


# Arrays.


@dataclass
class Picture:
    plain: np.ndarray
    image: npt.NDArray[np.uint8]
    some: npt.NDArray[np.floating[Any]]
    maybe: np.ndarray | None
    gain: np.float32


def test_arrays_have_the_dtype_of_the_hint():
    image = np.arange(4, dtype=np.uint8).reshape(2, 2)
    found = returned(Picture, Picture(image, image, image * 0.5, None, np.float32(0.1)))
    assert (found.plain.dtype, found.image.dtype, found.some.dtype) == (np.int64, np.uint8, np.float64)
    assert (found.image.tolist(), found.maybe, found.gain) == ([[0, 1], [2, 3]], None, np.float32(0.1))
    assert type(found.gain) is np.float32


@pytest.mark.parametrize("value", [[[1], [1, 2]], "text", {"a": 1}, None, [300]])
def test_data_that_is_no_array_stays_data(value):
    assert read(npt.NDArray[np.uint8], value) == value

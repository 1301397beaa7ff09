"""Members of Gymnasium spaces cross JSON and come back: actions through a check, observations through a reader."""

import json
import sys
import warnings
from collections import OrderedDict
from enum import IntEnum
from random import Random

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import envweave as ew
from envweave.core.jsonable import to_json
from envweave.core.membership import space_check
from envweave.core.sample import sample
from envweave.core.spaces import array_reader, observation_schema, space_schema
from envweave.errors import InvalidActionError

DTYPES = (np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.bool_)

shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def boxes(draw):
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(shapes)
    if np.dtype(dtype).kind == "b":
        return spaces.Box(0, 1, shape, dtype)
    low = draw(st.integers(0, 3)) if np.dtype(dtype).kind == "u" else draw(st.integers(-3, 3))
    lows = np.full(shape, low, dtype)
    highs = lows + np.asarray(draw(st.integers(0, 4)), dtype) * np.arange(1, lows.size + 1, dtype=dtype).reshape(shape)
    return spaces.Box(lows, highs.astype(dtype), shape, dtype)


leaves = st.one_of(
    boxes(),
    st.builds(spaces.Discrete, st.integers(1, 5), start=st.integers(-3, 3)),
    st.builds(spaces.Discrete, st.integers(1, 5), dtype=st.just(np.int32)),
    shapes.filter(lambda shape: shape and 0 not in shape).map(spaces.MultiBinary),
    st.lists(st.integers(1, 4), min_size=1, max_size=4).map(spaces.MultiDiscrete),
    st.just(spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, -1], [5, 0]], dtype=np.int32)),
    st.builds(
        spaces.Text, st.integers(2, 5), min_length=st.integers(0, 2), charset=st.sampled_from(["ab^]-\\", "é😀→"])
    ),
    st.just(spaces.Text(4)),
)


def containers(inner):
    parts = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.dictionaries(st.text(max_size=3), inner, min_size=1, max_size=3).map(spaces.Dict),
        parts.map(tuple).map(spaces.Tuple),
        parts.map(tuple).map(spaces.OneOf),
        st.builds(spaces.Sequence, inner, stack=st.booleans()),
        st.builds(spaces.Graph, inner, st.none() | inner),
    )


any_space = st.recursive(leaves, containers, max_leaves=6)


def drawn(space, seed):
    """A member of the space; some of Gymnasium's own combinations cannot be sampled."""
    space.seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return space.sample()


def is_member(space, value):
    with warnings.catch_warnings():  # Gymnasium warns of scalars in a Box of shape ()
        warnings.simplefilter("ignore")
        return bool(space.contains(value))


def same(one, other):
    """Equal in value, type, dtype and shape; a scalar is equal to an array of shape ()."""
    if isinstance(other, np.ndarray | np.generic):
        equal = np.array_equal(one, other) and one.shape == other.shape and one.dtype == other.dtype
        return equal and isinstance(one, np.ndarray | np.generic)
    if isinstance(other, dict):
        return isinstance(one, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in other)
    if isinstance(other, tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@settings(max_examples=200, deadline=None)
@given(any_space, st.integers(0, 2**31))
def test_the_json_form_of_a_member_becomes_a_member_again(space, seed):
    native = drawn(space, seed)
    data = json.loads(json.dumps(to_json(native)))
    check = space_check(space)
    assert is_member(space, check(data))
    assert to_json(check(data)) == data
    assert to_json(check(native)) == data


@settings(max_examples=200, deadline=None)
@given(any_space, st.integers(0, 2**31))
def test_a_value_drawn_from_the_schema_is_a_member(space, seed):
    schema = json.loads(json.dumps(space_schema(space)))
    assert is_member(space, space_check(space)(sample(schema, Random(seed))))


@settings(max_examples=200, deadline=None)
@given(any_space, st.integers(0, 2**31))
def test_an_observation_is_read_back_with_its_types(space, seed):
    native = drawn(space, seed)
    schema = json.loads(json.dumps(observation_schema(space)))
    read = array_reader(schema) or (lambda data: data)
    assert same(read(json.loads(json.dumps(to_json(native)))), native)


@settings(max_examples=100, deadline=None)
@given(any_space, any_space, st.integers(0, 2**31))
def test_what_does_not_fit_is_refused_as_an_action_and_left_alone_as_an_observation(space, other, seed):
    data = to_json(drawn(other, seed))
    read = array_reader(observation_schema(space)) or (lambda data: data)
    read(data)
    try:
        space_check(space)(data)
    except InvalidActionError:
        pass


def test_the_schema_of_an_observation_says_what_numpy_makes_of_it():
    space = spaces.Dict(speed=spaces.Box(-1, 1, (2,)), gear=spaces.Discrete(3))
    schema = observation_schema(space)
    assert schema["properties"]["speed"]["x-numpy"] == {"dtype": "float32", "shape": [2]}
    assert schema["properties"]["gear"] == {
        "type": "integer", "minimum": 0, "maximum": 2, "x-numpy": {"dtype": "int64", "shape": []}
    }  # fmt: skip
    assert observation_schema(spaces.Tuple([spaces.Text(3)]))["x-tuple"] is True
    assert "x-" not in str(space_schema(space))


@pytest.mark.parametrize("schema", [None, {}, {"type": "string"}, space_schema(spaces.Box(0, 1, (2,))), {"$ref": "#"}])
def test_without_arrays_there_is_no_reader(schema):
    assert array_reader(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"x-numpy": True},
        {"x-numpy": {"dtype": 3}},
        {"oneOf": 3},
        {"properties": []},
        {"prefixItems": None},
        {"items": [1]},
    ],
)
def test_a_schema_with_other_meanings_of_the_keywords_has_no_reader(schema):
    assert array_reader(schema) is None


def test_a_dtype_that_numpy_does_not_have_leaves_data_as_it_is():
    data = [1]
    for dtype in ("float33", "O", "<U3", "datetime64[s]", "complex64"):
        assert array_reader({"x-numpy": {"dtype": dtype, "shape": [1]}})(data) is data


def test_without_numpy_there_is_no_reader(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert array_reader({"x-numpy": {"dtype": "float32", "shape": [1]}}) is None


def test_a_class_that_only_has_the_name_of_a_space_is_of_an_unknown_kind():
    class Graph:
        def contains(self, x):
            return x == 1

    assert space_schema(Graph()) is None
    assert space_check(Graph())(1) == 1


def test_without_arrays_in_a_dict_there_is_no_reader():
    assert array_reader(observation_schema(spaces.Dict(a=spaces.Text(3)))) is None


@pytest.mark.parametrize(
    ("space", "data"),
    [
        (spaces.Box(0, 1, (2,)), [0.5]),
        (spaces.Box(0, 1, (2,)), None),
        (spaces.Box(0, 1, (2,)), ["0.5", "0.5"]),
        (spaces.Box(0, 255, (2,), np.uint8), [1, 256]),
        (spaces.Box(0, 255, (2,), np.uint8), [1, 1.5]),
        (spaces.Discrete(3), "two"),
        (spaces.Tuple([spaces.Discrete(2)]), [1, 1]),
        (spaces.Dict(a=spaces.Discrete(2)), {"b": 1}),
        (spaces.OneOf([spaces.Discrete(2)]), [1, 1]),
        (spaces.Graph(spaces.Discrete(2), None), [[0], None]),
        (spaces.Sequence(spaces.Box(0, 1, (2,)), stack=True), [[1.0], [2.0]]),
    ],
    ids=str,
)
def test_an_observation_outside_of_its_space_is_left_as_it_is(space, data):
    assert array_reader(observation_schema(space))(data) is data


def test_a_number_beyond_the_bounds_is_still_read_as_an_array():
    read = array_reader(observation_schema(spaces.Box(0, 1, (2,))))
    assert read([5.0, -5.0]).dtype == np.float32


def test_agents_without_an_observation_are_left_out():
    schema = {"type": "object", "properties": {agent: observation_schema(spaces.Box(0, 1, (1,))) for agent in "ab"}}
    read = array_reader(schema)({"b": [0.5], "c": [1]})
    assert (read["b"].dtype, read["c"]) == (np.float32, [1])


# Actions that are not written the way the space has them.


def stepped(id, *actions):
    env = ew.adapt(gym.make(id))
    env.reset(seed=1)
    return [env.step(action) for action in actions]


@pytest.mark.parametrize(
    "action",
    [[0.5], (0.5,), np.array([0.5]), np.array([0.5], np.float16), np.array([0.5], np.float32), [np.float64(0.5)]],
    ids=repr,
)
def test_a_float_of_any_width_is_an_action_of_pendulum(action):
    (result,) = stepped("Pendulum-v1", action)
    (expected,) = stepped("Pendulum-v1", np.array([0.5], np.float32))
    assert np.array_equal(result.observation, expected.observation)


@pytest.mark.parametrize("action", [[100.0], [3], np.array([-1e30])], ids=repr)
def test_a_box_takes_finite_values_beyond_its_bounds(action):
    (result,) = stepped("Pendulum-v1", action)
    (clipped,) = stepped("Pendulum-v1", np.clip(np.asarray(action, np.float32), -2, 2))
    assert result.reward == clipped.reward


@pytest.mark.parametrize(
    "action",
    [[float("nan")], [float("inf")], [1e300], np.array([np.nan]), [0.5, 0.5], [], 0.5, [[0.5]], ["0.5"], "x", None,
     {"a": 1}, [None], [1j], object()],
)  # fmt: skip
def test_a_box_refuses_what_is_no_number_and_other_shapes(action):
    with pytest.raises(InvalidActionError, match="is not in Box"):
        stepped("Pendulum-v1", action)


def test_a_box_without_bounds_takes_infinity_but_not_nan():
    check = space_check(spaces.Box(-np.inf, np.inf, (1,)))
    assert check([float("inf")])[0] == np.inf
    with pytest.raises(InvalidActionError, match="not all values are finite"):
        check([float("nan")])


def test_a_box_of_whole_numbers_takes_no_fractions_and_nothing_that_overflows():
    check = space_check(spaces.Box(0, 9, (2,), np.uint8))
    assert check([3, 200]).tolist() == [3, 200]
    assert check(np.array([3, 4], np.int64)).dtype == np.uint8
    assert check([True, False]).tolist() == [1, 0]
    for wrong in ([1.5, 2], [1.0, 2.0], [-1, 0], [256, 0], np.array([1.0, 2.0])):
        with pytest.raises(InvalidActionError):
            check(wrong)
    assert space_check(spaces.Box(0, 2**64 - 1, (2,), np.uint64))([1, 2**63 + 1])[1] == 2**63 + 1


def test_an_array_that_fits_is_passed_on_and_not_copied():
    action = np.zeros(2, np.float32)
    assert space_check(spaces.Box(-1, 1, (2,)))(action) is action


SELF_CONTAINING: list = []
SELF_CONTAINING.append(SELF_CONTAINING)


class Push(IntEnum):
    LEFT = 0
    RIGHT = 1


@pytest.mark.parametrize(
    "action",
    [1, np.int64(1), np.uint8(1), np.array(1), np.array([1]), np.array([[1]], np.uint8), Push.RIGHT, [1], [[1]]],
    ids=repr,
)
def test_a_whole_number_in_any_form_is_an_action_of_cartpole(action):
    (result,) = stepped("CartPole-v1", action)
    (expected,) = stepped("CartPole-v1", 1)
    assert np.array_equal(result.observation, expected.observation)


def test_an_array_reaches_the_environment_as_a_scalar():
    check = space_check(spaces.Discrete(3))
    assert [type(check(action)) for action in (np.array([1]), np.array(1))] == [int, int]
    assert type(check(np.int64(1))) is np.int64


@pytest.mark.parametrize(
    "action",
    [True, np.bool_(True), np.array([True]), 1.0, np.array([1.0]), "1", None, 2, np.array([2]), np.array([1, 1]),
     np.array([], int), [], [1, 1], [True], [1.0], ["1"], SELF_CONTAINING],
    ids=repr,
)  # fmt: skip
def test_cartpole_refuses_what_is_no_whole_number_or_out_of_range(action):
    with pytest.raises(InvalidActionError, match="is not one of 0 to 1"):
        stepped("CartPole-v1", action)


def test_multi_binary_and_multi_discrete_keep_their_ranges():
    binary, several = space_check(spaces.MultiBinary(2)), space_check(spaces.MultiDiscrete([2, 3], start=[0, 5]))
    assert binary([True, 0]).tolist() == [1, 0]
    assert binary(np.array([0.0, 1.0])).tolist() == [0, 1]
    assert several(np.array([1, 7], np.int16)).dtype == np.int64
    for check, wrong in [(binary, [0, 2]), (binary, [0]), (several, [0, 0]), (several, [0, 8]), (several, [0.0, 5.0])]:
        with pytest.raises(InvalidActionError):
            check(wrong)


def test_a_refusal_names_the_part_that_is_wrong():
    space = spaces.Dict(arm=spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(2)]))
    check = space_check(space)
    assert isinstance(check(OrderedDict(arm=[[0, 0], 1]))["arm"][0], np.ndarray)
    with pytest.raises(InvalidActionError, match=r"arm: 0: shape is \(1,\), not \(2,\)"):
        check({"arm": [[0], 1]})
    with pytest.raises(InvalidActionError, match="arm: 1: action 2 is not one of 0 to 1"):
        check({"arm": [[0, 0], 2]})
    with pytest.raises(InvalidActionError, match="the keys must be arm"):
        check({"arm": [[0, 0], 1], "leg": 1})


@pytest.mark.parametrize(
    ("edges", "reason"),
    [
        (([0], [[0, 5]]), "there are 2 nodes"),
        (([0], [[0, -1]]), "there are 2 nodes"),
        (([0, 1], [[0, 1]]), r"edge_links: shape is \(1, 2\), not \(2, 2\)"),
        (([0], None), "edge_links"),
        ((None, [[0, 1]]), "edges"),
        (([9], [[0, 1]]), "edges: not all values are in range"),
    ],
)
def test_a_graph_with_impossible_edges_is_refused(edges, reason):
    with pytest.raises(InvalidActionError, match=reason):
        space_check(spaces.Graph(spaces.Discrete(2), spaces.Discrete(2)))([[0, 1], *edges])


def test_parts_of_a_stacked_sequence_have_one_length():
    check = space_check(spaces.Sequence(spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2)), stack=True))
    assert check({"a": [0, 1], "b": [1, 1]})["a"].tolist() == [0, 1]
    with pytest.raises(InvalidActionError, match="different lengths: 1, 2"):
        check({"a": [0], "b": [1, 1]})


def test_a_subclass_with_a_rule_of_its_own_keeps_it():
    class Direction(spaces.Box):
        def contains(self, x):
            return super().contains(x) and bool(np.isclose(np.linalg.norm(x), 1))

    class Named(spaces.Box):
        """Has no rule of its own."""

    check = space_check(Direction(-1, 1, (2,)))
    assert check(np.array([0.0, 1.0])).dtype == np.float32
    with pytest.raises(InvalidActionError):
        check([0.5, 0.0])
    assert space_check(Named(-1, 1, (1,)))([3.0])[0] == 3.0


def test_a_space_of_an_unknown_kind_has_the_last_word():
    class Even(gym.Space):
        def contains(self, x):
            return x % 2 == 0

    check = space_check(Even())
    assert check(4) == 4
    for wrong in (3, "x", None):
        with pytest.raises(InvalidActionError):
            check(wrong)
    assert space_schema(Even()) is None
    assert observation_schema(Even()) == {}


def test_each_element_of_a_small_box_has_its_own_bounds():
    schema = space_schema(spaces.Box(np.array([-1, 0], np.float32), np.array([1, np.inf], np.float32)))
    assert schema["prefixItems"] == [
        {"type": "number", "minimum": -1.0, "maximum": 1.0},
        {"type": "number", "minimum": 0.0},
    ]
    large = spaces.Box(np.arange(100, dtype=np.float32), np.full(100, 200, np.float32))
    assert space_schema(large)["items"] == {"type": "number", "minimum": 0.0, "maximum": 200.0}


def test_the_characters_of_a_text_are_in_its_schema():
    assert space_schema(spaces.Text(3))["pattern"] == "^[0-9A-Za-z]*$"
    assert "pattern" not in space_schema(spaces.Text(min_length=0, max_length=1, charset=""))

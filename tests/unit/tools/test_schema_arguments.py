import pytest

from envweave.tools import Tool, ToolError
from envweave.tools.schema_arguments import identifier, identifiers


def tool(**schema):
    return Tool(
        name="t", description="Does it.", function=lambda **given: given, input_schema={"type": "object", **schema}
    )


def test_names_become_identifiers_no_two_alike():
    assert [identifier(name) for name in ("get-sum", "3d", "class", "ü.b", "a b", "")] == [
        "get_sum", "_3d", "class_", "ü_b", "a_b", "_",
    ]  # fmt: skip
    assert identifiers(["a-b", "a_b", "a.b"]) == ["a_b", "a_b_", "a_b__"]


@pytest.mark.parametrize("schema", [{}, {"properties": None}, {"properties": []}, {"required": "x"}])
def test_a_schema_that_says_nothing_takes_what_it_is_given(schema):
    assert tool(**schema).invoke({"any": 1}) == {"any": 1}
    assert tool(**schema).as_function()() == {}


def test_parameters_stand_in_the_order_of_the_properties_with_types_and_defaults():
    call = tool(
        properties={
            "a": {"type": "string"},
            "b": {"type": "number", "default": 2},
            "c": {"enum": ["x", "y"]},
            "d": True,
        },
        required=["a"],
    ).as_function()
    assert str(call.__signature__) == "(a: str, b: float = 2, c: Literal['x', 'y'] = None, d=None)"
    assert call("p", 3) == {"a": "p", "b": 3}
    assert call(a="p", c="x") == {"a": "p", "c": "x"}


def test_what_is_required_after_what_is_not_is_still_required():
    call = tool(properties={"a": {"type": "integer"}, "b": {"type": "integer"}}, required=["b"]).as_function()
    assert str(call.__signature__) == "(a: int = None, b: int = <required>)"
    assert call(b=1) == {"b": 1}
    with pytest.raises(ToolError, match="t: b: is required"):
        call(1)


def test_none_is_not_given_where_there_is_no_null():
    call = tool(
        properties={
            "a": {"type": "string"}, "b": {"type": ["string", "null"]},
            "c": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "d": {"enum": ["x", None]}, "e": {},
            "f": {"type": "integer"},
        },
        required=["f"],
    ).as_function()  # fmt: skip
    assert call(None, None, None, None, None, 1) == {"b": None, "c": None, "d": None, "e": None, "f": 1}
    with pytest.raises(ToolError, match="f: should be of type integer, got None"):
        call(f=None)


def test_names_of_the_schema_are_used_for_what_is_sent():
    call = tool(properties={"file-path": {"type": "string", "description": "where"}, "from": {}}).as_function()
    assert call("x", from_="y") == {"file-path": "x", "from": "y"}
    assert call.__doc__ == "Does it.\n\nArgs:\n    file_path: where"


TYPED = {
    "n": {"type": "integer"}, "x": {"type": "number"}, "t": {"type": ["string", "null"]}, "l": {"type": "array"},
    "o": {"type": "object"}, "b": {"type": "boolean"}, "c": {"enum": ["x", 1]}, "odd": {"type": "file"}, "any": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {"n": 3}, {"n": 3.0}, {"x": 3}, {"x": 0.5}, {"t": "a"}, {"t": None}, {"l": [1]}, {"l": (1,)}, {"o": {}},
        {"b": True}, {"c": 1}, {"odd": 5}, {"any": object}, {"unknown": 5},
    ],
)  # fmt: skip
def test_values_of_the_types_of_the_schema_are_taken(given):
    assert tool(properties=TYPED).invoke(given) == given


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"n": "3"}, "n: should be of type integer, got '3'"),
        ({"n": 0.5}, "n: should be of type integer, got 0.5"),
        ({"n": True}, "n: should be of type integer, got True"),
        ({"x": False}, "x: should be of type number, got False"),
        ({"t": 5}, "t: should be of type string or null, got 5"),
        ({"l": "ab"}, "l: should be of type array, got 'ab'"),
        ({"o": []}, r"o: should be of type object, got \[\]"),
        ({"b": 1}, "b: should be of type boolean, got 1"),
        ({"c": "y"}, r"c: should be one of \['x', 1\], got 'y'"),
    ],
)
def test_values_of_other_types_are_refused(given, reason):
    with pytest.raises(ToolError, match=f"t: {reason}") as refused:
        tool(properties=TYPED).invoke(given)
    assert refused.value.kind == "invalid_arguments"


def test_others_are_taken_or_refused_as_the_schema_says():
    assert tool(properties={"a": {}}, additionalProperties=True).as_function()(1, b=2) == {"a": 1, "b": 2}
    with pytest.raises(ToolError, match="t: b: there is no such parameter"):
        tool(properties={"a": {}}, additionalProperties=False).invoke({"b": 1})
    with pytest.raises(TypeError, match=r"t\(\) got an unexpected keyword argument 'b'"):
        tool(properties={"a": {}}).as_function()(b=2)

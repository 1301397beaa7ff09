import pytest

from envweave.tools.output import WRAPPED, is_wrapped, structured, wrapped_schema


@pytest.mark.parametrize(
    ("schema", "wrapped"),
    [(None, False), ({"type": "object"}, False), ({"type": "integer"}, True), ({"anyOf": []}, True)],
)
def test_only_an_object_can_be_sent_as_it_is(schema, wrapped):
    assert is_wrapped(schema) is wrapped
    if schema is not None:
        assert wrapped_schema(schema)["type"] == "object"
        assert (WRAPPED in wrapped_schema(schema)) is wrapped


def test_definitions_stay_at_the_root_where_references_look_for_them():
    schema = {"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string"}}}
    found = wrapped_schema(schema)
    assert found["$defs"] == schema["$defs"]
    assert found["properties"]["result"] == {"type": "array", "items": {"$ref": "#/$defs/A"}}


def test_values_are_wrapped_as_their_schema_says():
    assert structured(3, wrapped=True) == {"result": 3}
    assert structured({"a": 1}, wrapped=True) == {"result": {"a": 1}}
    assert structured({"a": 1}, wrapped=False) == {"a": 1}
    assert structured(3, wrapped=False) is None

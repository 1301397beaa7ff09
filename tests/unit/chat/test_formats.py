"""From replies of a model to actions."""

import pytest

from envweave.chat.formats import format_for, last_object, takes_tool_calls, text_field
from envweave.chat.messages import message_of
from envweave.errors import InvalidActionError, UsageError
from envweave.lm.messages import Message

TEXT = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
CODE = {"type": "object", "properties": {"code": {"type": "string"}, "metadata": {}}, "required": ["code"]}
MOVE = {"type": "object", "properties": {"move": {"enum": [-1, 1], "type": "integer"}}, "required": ["move"]}
CALL = {"type": "object", "properties": {"tool_name": {"type": "string"}, "arguments": {}}, "required": ["tool_name"]}
UNION = {"anyOf": [{"$ref": "#/$defs/List"}, {"$ref": "#/$defs/Call"}], "$defs": {"List": {}, "Call": CALL}}


def call(name, arguments="{}", id="1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def read(schema, reply, **options):
    return format_for(schema, **options).read(message_of(reply))


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (None, "text"),
        ({"type": "string"}, "text"),
        (TEXT, "text"),
        (CODE, "code"),
        (MOVE, "json"),
        ({"type": "integer"}, "json"),
        ({**TEXT, "properties": {"word": {"type": "string", "enum": ["a"]}}}, "json"),
        ({**TEXT, "required": []}, "json"),
        (CALL, "tools"),
        (UNION, "tools"),
    ],
)
def test_the_format_follows_from_the_schema_of_the_actions(schema, name):
    assert format_for(schema).name == name


def test_a_text_is_the_action_or_its_only_field():
    assert read(None, "go left") == ["go left"]
    assert read(TEXT, "crane") == [{"word": "crane"}]
    assert read(
        TEXT, {"role": "assistant", "content": [{"type": "text", "text": "cra"}, {"type": "text", "text": "ne"}]}
    ) == [{"word": "crane"}]
    with pytest.raises(InvalidActionError, match="empty"):
        read(TEXT, " \n")


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("```python\nx = 1\n```", "x = 1"),
        ("First\n```py\nx = 1\n```\nthen\n```python\nx + 1\n```\ndone", "x = 1\nx + 1"),
        ("```\nx = 1\n```", "x = 1"),
        ("~~~python\nx = 1\n~~~", "x = 1"),
        ("````python\ntext = '''\n```\n'''\n````", "text = '''\n```\n'''"),
        ("```bash\nrm x\n```\n```python\nx = 1\n```", "x = 1"),
        ("```python\nx = 1", "x = 1"),
        ("```Python title=a.py\nx = 1\n```", "x = 1"),
    ],
)
def test_code_is_what_stands_in_fences(reply, code):
    assert read(CODE, reply) == [{"code": code}]


@pytest.mark.parametrize("reply", ["x = 1", "`x = 1`", "```bash\nls\n```", "", "```python\n\n```"])
def test_a_reply_without_fenced_python_is_not_code(reply):
    with pytest.raises(InvalidActionError, match="fenced"):
        read(CODE, reply)


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ('{"move": 1}', {"move": 1}),
        ('I go right.\n```json\n{"move": 1}\n```', {"move": 1}),
        ('not {"move": -1} but {"move": 1}.', {"move": 1}),
        ('{oh} {"move": 1}', {"move": 1}),
        ("3", 3),
        ("[1, 2]", [1, 2]),
    ],
)
def test_json_is_the_reply_its_last_block_or_its_last_object(reply, action):
    assert read(MOVE, reply) == [action]


@pytest.mark.parametrize("reply", ["left", "{", "[" * 100_000, '{"move": ' * 5_000])
def test_a_reply_without_json_is_refused_in_bounded_time(reply):
    with pytest.raises(InvalidActionError, match="no JSON"):
        read(MOVE, reply)


def test_structured_actions_may_be_offered_as_a_tool():
    form = format_for(MOVE, name="tools", description="Walk.")
    (offered,) = form.tools()
    assert offered["function"]["name"] == "act"
    assert offered["function"]["description"] == "Walk."
    assert offered["function"]["parameters"]["required"] == ["move"]
    message = {"role": "assistant", "content": None, "tool_calls": [call("act", '{"move": 1}')]}
    assert form.read(message_of(message)) == [{"move": 1}]
    assert form.read(message_of('{"move": 1}')) == [{"move": 1}]
    for wrong in ([call("go")], [call("act"), call("act", id="2")]):
        with pytest.raises(InvalidActionError):
            form.read(message_of({"role": "assistant", "tool_calls": wrong}))


def test_each_tool_call_is_an_action():
    message = {"role": "assistant", "tool_calls": [call("look", '{"shelf": "A"}'), call("ship", "", id="2")]}
    assert read(UNION, message) == [
        {"type": "call_tool", "tool_name": "look", "arguments": {"shelf": "A"}},
        {"type": "call_tool", "tool_name": "ship", "arguments": {}},
    ]
    with pytest.raises(InvalidActionError, match="calls no tool"):
        read(UNION, "look at A")


def test_a_format_that_does_not_fit_the_actions_is_refused():
    with pytest.raises(UsageError, match="not one text"):
        format_for(MOVE, name="code")
    with pytest.raises(UsageError, match="no chat format 'xml'"):
        format_for(MOVE, name="xml")


def test_messages_are_read_from_whatever_a_driver_has():
    plain = Message("assistant", "hi")
    assert message_of("hi") == message_of(plain) == message_of({"role": "assistant", "content": "hi"}) == plain
    for wrong in (3, None, {"role": "assistant", "content": 3}, {"role": "assistant", "tool_calls": ["x"]}):
        with pytest.raises(UsageError):
            message_of(wrong)


def test_helpers_say_no_where_nothing_is_known():
    assert (text_field({"type": "integer"}), takes_tool_calls(None), last_object("none")) == (None, False, None)

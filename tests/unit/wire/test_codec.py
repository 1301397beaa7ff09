"""Bytes and data."""

import json

import pytest

from envweave.errors import NotJSONableError, ProtocolError
from envweave.wire.codec import MAX_DEPTH, decode, encode


@pytest.mark.parametrize(
    "data",
    [
        None, True, False, 0, -1, 2**53 + 1, 2**64, -(2**63) - 1, 10**40, 0.1, 1e300, -0.5, "",
        "ä€😀\u2028\0\"\\", [], {},
        [[], {}, [None]], {"": {"a": [1, 2.5, "x"]}},
    ],
    ids=repr,
)  # fmt: skip
def test_data_come_back_as_they_were(data):
    text = encode(data)
    assert json.loads(text) == data
    for found in (decode(text), decode(text.decode())):
        assert (found, type(found)) == (data, type(data))


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"a":}', "[1,]", "{'a':1}", "NaN", "[1]x", '"\\ud800"', "nul", b"\xff", b'"\xc3"', "\ud800"]
)
def test_what_is_not_json_is_a_protocol_error(text):
    with pytest.raises(ProtocolError, match=r"^invalid JSON: "):
        decode(text)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_json_may_be_nested_so_deeply_and_no_deeper(opening, closing, as_bytes):
    def nested(levels):
        text = opening * levels + "1" + closing * levels
        return text.encode() if as_bytes else text

    decode(nested(MAX_DEPTH - 1))
    for levels in (MAX_DEPTH + 1, 1000, 100_000):
        with pytest.raises(ProtocolError, match=rf"^JSON is nested deeper than {MAX_DEPTH} levels$"):
            decode(nested(levels))


def test_many_brackets_side_by_side_are_not_deep():
    data = [{"a": []}] * 1000 + ["[" * 1000, "{" * 1000]
    assert decode(encode(data)) == data


def test_a_lone_surrogate_cannot_cross():
    with pytest.raises(NotJSONableError, match=r"lone surrogate: 'a\\ud800b'") as caught:
        encode({"text": "a\ud800b"})
    assert "errors='replace'" in caught.value.hint

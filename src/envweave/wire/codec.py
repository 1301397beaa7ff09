"""JSON text and data.

msgspec rather than orjson: as fast here, and whole numbers of any size stay what they are.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envweave.errors import NotJSONableError, ProtocolError

MAX_DEPTH = 72
"""Maximum nesting of a message: what `to_json` allows for a value, plus the envelope."""

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

encode_unchecked = _encode
"""`encode` without the error for text with a lone surrogate: raises `UnicodeEncodeError`."""


def decode(text: str | bytes) -> Any:
    """JSON to data. Raises `ProtocolError` for what is not JSON, or is nested too deeply."""
    try:
        data = _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ProtocolError(f"invalid JSON: {error}") from None
    except RecursionError:
        raise ProtocolError(f"JSON is nested deeper than {MAX_DEPTH} levels") from None
    if _may_be_deep(text.encode() if isinstance(text, str) else text) and _too_deep(data):
        raise ProtocolError(f"JSON is nested deeper than {MAX_DEPTH} levels")
    return data


class ReplyMessage(msgspec.Struct, gc=False):
    """A message of a server. One without a `ref` is about the whole connection."""

    type: str = ""
    ref: int = 0
    id: int | None = None
    """The number of the call; None for what was not asked for by a numbered call."""
    data: Any = None


decode_replies = msgspec.json.Decoder(list[ReplyMessage] | ReplyMessage).decode
"""The message of a frame, or its messages, without a check of their depth. Raises `ValueError` or `RecursionError`."""


def encode(data: Any) -> bytes:
    """Data that `to_json` made, or is made of the same types, to JSON."""
    try:
        return _encode(data)
    except UnicodeEncodeError as error:
        raise lone_surrogate(error) from None


def lone_surrogate(error: UnicodeEncodeError) -> NotJSONableError:
    return NotJSONableError(f"text with a lone surrogate: {error.object[:40]!r}", "decode with errors='replace'")


def _may_be_deep(text: bytes) -> bool:
    """Whether the brackets in the text nest too deeply; also True for text that has odd brackets in strings.

    Removing empty pairs, level by level, takes a tenth of the time of a walk through the data.
    """
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    brackets = text.translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        fewer = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not fewer or len(fewer) == len(brackets):
            return bool(fewer)
        brackets = fewer
    return True


def _too_deep(data: Any) -> bool:
    level = [data]
    for _ in range(MAX_DEPTH):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()

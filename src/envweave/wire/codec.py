"""Bytes and data.

msgspec rather than orjson: as fast here, and whole numbers of any size stay what they are.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envweave.errors import NotJSONableError, ProtocolError

DEEPEST = 72
"""Levels of nesting that a message may have: what `to_json` allows for a value, and the envelope around it."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def decode(text: str | bytes) -> Any:
    """JSON to data. Raises `ProtocolError` for what is not JSON, or is nested too deeply."""
    try:
        data = _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ProtocolError(f"invalid JSON: {error}") from None
    except RecursionError:
        raise ProtocolError(f"JSON is nested deeper than {DEEPEST} levels") from None
    brackets = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if brackets > DEEPEST and _too_deep(data):
        raise ProtocolError(f"JSON is nested deeper than {DEEPEST} levels")
    return data


def encode(data: Any) -> bytes:
    """Data that `to_json` made, or is made of the same types, to JSON."""
    try:
        return _encode(data)
    except UnicodeEncodeError as error:
        raise NotJSONableError(
            f"text with a lone surrogate: {error.object[:40]!r}", "decode with errors='replace'"
        ) from None


def _too_deep(data: Any) -> bool:
    level = [data]
    for _ in range(DEEPEST):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()

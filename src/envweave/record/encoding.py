"""JSON lines of whatever an environment returns. Nothing is refused: a record must not break the episode it describes.

Written with msgspec where it is installed, else with `json`. Numbers that JSON does not have (NaN, infinity) become
null, and an object without a JSON form becomes `{"not_json": "module.Class"}`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date, datetime
from enum import Enum
from math import isfinite
from typing import Any

from envweave.errors import RecordError

_DEEPEST = 64


def encode(data: Any) -> bytes:
    """The data as one line of JSON, without the newline."""
    try:
        return _encode(data)
    except Exception:  # a key that is no text, a lone surrogate, NaN, a serializer of the author's
        return _encode(_plain(data, []))


def decode(line: bytes | str) -> Any:
    """Raises `RecordError` for what is not JSON."""
    try:
        return _decode(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not a line of a record: {error}") from None


def _converted(value: Any) -> Any:
    """JSON data, or something nearer to it, of a value that the encoder does not know."""
    try:
        return _form(value)
    except Exception:  # whatever the author's code raises
        return _unknown(value)


def _form(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    for base in (str, int, float):  # their subclasses
        if isinstance(value, base):
            return base(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, Sequence | Set):
        return list(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if not isinstance(value, type):
        if dataclasses.is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        for method in ("model_dump", "tolist", "item"):  # pydantic; arrays and scalars of numpy and torch
            if callable(getattr(value, method, None)):
                return getattr(value, method)()
    return _unknown(value)


def _unknown(value: Any) -> dict[str, str]:
    return {"not_json": _class_of(value)}


def _class_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _plain(value: Any, above: list[Any]) -> Any:
    """Only dicts with text keys, lists, text and finite numbers. Slow, for what the encoder refuses.

    `above` are the values that this one is in.
    """
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float:
        return value if isfinite(value) else None
    if type(value) is str:
        return value.encode(errors="backslashreplace").decode()  # JSON has no lone surrogates
    if any(value is one for one in above):
        return {"not_json": "contains itself"}
    if len(above) >= _DEEPEST:
        return {"not_json": "nested too deeply"}
    within = [*above, value]
    if type(value) is dict:
        return {_key(key): _plain(inner, within) for key, inner in value.items()}
    if type(value) is list:
        return [_plain(inner, within) for inner in value]
    return _plain(_converted(value), within)


def _key(key: Any) -> str:
    try:
        return str(_plain(str(key), []))
    except Exception:  # whatever the author's code raises
        return _class_of(key)


def _json_encode(data: Any) -> bytes:
    text = json.dumps(data, default=_converted, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


_encode: Callable[[Any], bytes] = _json_encode
_decode: Callable[[Any], Any] = json.loads
try:
    import msgspec

    _encode = msgspec.json.Encoder(enc_hook=_converted).encode
    _decode = msgspec.json.Decoder().decode
except ImportError:  # it comes with the extras `client` and `server`
    pass

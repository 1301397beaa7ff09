"""Fingerprints: text that is equal for equal values, to compare what was seen with what is seen now."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Any

from envweave.testing.report import attempt
from envweave.types import Observation

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_DEEPEST = 32
_LONGEST = 240
_BIG_BYTES = 4096
"""An array from this size on is digested at once: an image as nested lists takes a hundred times as long."""


def fingerprint(value: Any) -> str:
    """JSON text of the value; long text is cut and ends in a digest of all of it."""
    return _text(form(value))


def observed(observation: Any) -> tuple[str, Any]:
    """The fingerprint of an observation without `metadata`, and that metadata, which counts as info."""
    shape = form(observation)
    if isinstance(observation, Observation):
        return _text({**shape, "metadata": None}), shape["metadata"]
    if isinstance(observation, Mapping):
        own = [str(key) for key, value in observation.items() if isinstance(value, Observation)]
        metadata = {key: shape[key]["metadata"] for key in own}
        return _text({**shape, **{key: {**shape[key], "metadata": None} for key in own}}), metadata
    return _text(shape), None


def form(value: Any, depth: int = 0) -> Any:
    """JSON data that stands for any value at all; what has no JSON form is its `repr` without addresses."""
    if isinstance(value, Enum):
        return form(value.value, depth + 1)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else repr(float(value))
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): form(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [form(part, depth + 1) for part in value]
    if isinstance(value, set | frozenset):
        return sorted(fingerprint(part) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field for field in dataclasses.fields(value) if field.compare]  # a duration may differ each time
        return {field.name: form(getattr(value, field.name), depth + 1) for field in fields}
    return _foreign(value, depth)


def _foreign(value: Any, depth: int) -> Any:
    """Pydantic models; arrays and scalars of numpy and torch; whatever else there is."""
    if getattr(value, "nbytes", 0) >= _BIG_BYTES and getattr(getattr(value, "dtype", None), "kind", "O") in "biufc":
        digest = hashlib.blake2b(value.tobytes(), digest_size=8).hexdigest()
        return f"array of {value.dtype} {value.shape} #{digest}"
    for method in ("model_dump", "tolist", "item"):
        convert = getattr(value, method, None)
        if callable(convert) and not isinstance(value, type):
            return form(convert(), depth + 1)
    text, error = attempt(lambda: repr(value))
    return _ADDRESS.sub("", text) if error is None else f"a {type(value).__name__}"


def _text(shape: Any) -> str:
    text = json.dumps(shape, ensure_ascii=False, sort_keys=True)
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{text[:_LONGEST]}… #{digest}"

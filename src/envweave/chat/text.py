"""An observation as text for a model."""

from __future__ import annotations

import json
from typing import Any

from envweave.core.jsonable import to_json
from envweave.errors import NotJSONableError

LONGEST = 20_000
"""Characters of one value; the middle of a longer one is left out."""

_UNSEEN = ("done", "reward", "metadata")


def observation_text(observation: Any) -> str:
    """The fields of an observation, except `done`, `reward`, `metadata` and empty ones; a single text as it is."""
    if observation is None or isinstance(observation, str):
        return shortened(observation or "")
    try:
        data = to_json(observation)
    except NotJSONableError:
        return shortened(repr(observation))
    if not isinstance(data, dict):
        return shortened(json.dumps(data, ensure_ascii=False))
    seen = {name: value for name, value in data.items() if name not in _UNSEEN and value not in (None, "", [], {})}
    if len(seen) == 1 and isinstance(only := next(iter(seen.values())), str):
        return shortened(only)
    return "\n".join(_line(name, value) for name, value in seen.items())


def _line(name: str, value: Any) -> str:
    if not isinstance(value, str):
        return f"{name}: {shortened(json.dumps(value, ensure_ascii=False))}"
    text = shortened(value.rstrip("\n"))
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text, without its middle if it is longer than that."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"

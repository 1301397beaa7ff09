"""What is sent to an endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from envweave.errors import UsageError

RESERVED = ("model", "messages", "stream")


class Message(TypedDict):
    """One message of a conversation."""

    role: str
    content: str


def prompt_message(prompt: str) -> Message:
    """A prompt as the message of a user."""
    if not isinstance(prompt, str):
        raise UsageError(f"a prompt is a string, not {type(prompt).__name__}")
    return {"role": "user", "content": prompt}


def check_extra(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Further fields of a request; those under `extra_body` are of the request too, as in OpenAI's client."""
    fields = {**extra, **extra.get("extra_body", {})}
    fields.pop("extra_body", None)
    if taken := sorted(set(fields) & set(RESERVED)):
        raise UsageError(f"extra has fields that are not its own: {', '.join(taken)}")
    _encoded(fields)
    return fields


def body_for(messages: Sequence[Message], model: str, fields: Mapping[str, Any]) -> bytes:
    """The request, without the fields that are None. Raises `UsageError` for what is not JSON."""
    if isinstance(messages, str | Mapping) or not all(isinstance(one, Mapping) for one in messages):
        raise UsageError("messages are a list of {'role': …, 'content': …}")
    if not isinstance(model, str):
        raise UsageError(f"a model is named by a string, not {model!r:.100}")
    used = {key: value for key, value in fields.items() if value is not None}
    return _encoded({"model": model, "messages": [dict(one) for one in messages], **used})


def _encoded(data: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(data, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"what is sent to a model must be JSON: {error}") from error

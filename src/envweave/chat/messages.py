"""Messages in OpenAI's form, read from whatever a driver or an author has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envweave.errors import InvalidActionError
from envweave.lm.messages import FunctionCall, Message


def message_of(given: Any, role: str = "assistant") -> Message:
    """A message from a text, a mapping in OpenAI's form, a `Message`, or a reply that has one.

    Raises `InvalidActionError` for anything else: that is the driver's mistake, not the model's.
    """
    given = getattr(given, "message", given)
    if isinstance(given, Message):
        return given
    if isinstance(given, str):
        return Message(role, given)
    if callable(getattr(given, "model_dump", None)):  # a message of the openai package
        given = given.model_dump()
    if not isinstance(given, Mapping):
        raise InvalidActionError(
            f"a {type(given).__name__} is not a message", "pass a text, or {'role': …, 'content': …}"
        )
    content = given.get("content")
    if not (content is None or isinstance(content, str | list)):
        raise InvalidActionError(
            f"the content of a message is a {type(content).__name__}", "use a text, or a list of parts"
        )
    return Message(
        str(given.get("role") or role),
        content,
        tuple(_call(one) for one in given.get("tool_calls") or ()),
        given.get("tool_call_id"),
        given.get("name"),
        given.get("reasoning_content") or given.get("reasoning"),
    )


def _call(given: Any) -> FunctionCall:
    if isinstance(given, FunctionCall):
        return given
    function = given.get("function") if isinstance(given, Mapping) else None
    if not isinstance(function, Mapping):
        raise InvalidActionError(
            f"{given!r:.80} is not a tool call", "{'id': …, 'function': {'name': …, 'arguments': …}}"
        )
    return FunctionCall(str(given.get("id") or ""), str(function.get("name")), str(function.get("arguments") or ""))


def user_message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def tool_message(call_id: str, text: str) -> dict[str, Any]:
    """The answer to a tool call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}

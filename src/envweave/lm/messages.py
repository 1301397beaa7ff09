"""Messages of a conversation, and the tool calls in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envweave.errors import InvalidReplyError, UsageError


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function that the model wants to be called."""

    id: str
    name: str
    arguments: str
    """JSON as the model wrote it, which may be invalid."""

    def parse(self) -> dict[str, Any]:
        """The arguments by name. Raises `InvalidReplyError` if they are not a JSON object; an empty text is one."""
        try:
            found = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise InvalidReplyError(f"the arguments of tool call {self.name!r:.100} are not a JSON object")
        return found

    def to_dict(self) -> dict[str, Any]:
        """The call in OpenAI's form."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `content` is a text, or a list of parts in OpenAI's form: `{"type": "image_url", …}`."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str | Sequence[Mapping[str, Any]] | None = None
    tool_calls: tuple[FunctionCall, ...] = ()
    tool_call_id: str | None = None
    """In a message of the role `tool`: the call that it answers."""
    name: str | None = None
    reasoning: str | None = None
    """What the model thought before it answered. It is sent back as `reasoning_content`; the chat template decides."""

    def to_dict(self) -> dict[str, Any]:
        """The message in OpenAI's form, without fields that are not set."""
        optional = {
            "tool_calls": [call.to_dict() for call in self.tool_calls],
            "tool_call_id": self.tool_call_id,
            "name": self.name,
            "reasoning_content": self.reasoning,
        }
        return {"role": self.role, "content": self.content, **{key: value for key, value in optional.items() if value}}


Messages = Sequence[Message | Mapping[str, Any]]
"""A conversation; a mapping is a message in OpenAI's form and is sent as it is."""


def prompt_message(prompt: str) -> Message:
    """A prompt as the message of a user."""
    if not isinstance(prompt, str):
        raise UsageError(f"a prompt is a string, not {type(prompt).__name__}")
    return Message("user", prompt)


def messages_to_data(messages: Messages) -> list[dict[str, Any]]:
    """The messages in OpenAI's form. Raises `UsageError` for what is none."""
    data = [] if isinstance(messages, str | Mapping) else [_to_data(one) for one in messages]
    if not data or not all(isinstance(one.get("role"), str) for one in data):
        raise UsageError("messages are a list of Message or {'role': …, 'content': …}, and not empty")
    return data


def _to_data(message: Message | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(message, Message):
        return message.to_dict()
    return dict(message) if isinstance(message, Mapping) else {}


def encodable(text: str) -> str:
    """The text without lone surrogates, which JSON can write and UTF-8 cannot."""
    return text.encode(errors="surrogatepass").decode(errors="replace")

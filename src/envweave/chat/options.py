"""How an environment talks to a model, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envweave.core.actions import ActionRule
from envweave.errors import UsageError
from envweave.types import Observation


@dataclass(frozen=True, kw_only=True)
class Chat:
    """How an environment talks to a model."""

    format: str = "auto"
    """How the model writes actions: `text`, `code`, `json`, `tools`; by the schema of the actions if it is `auto`."""
    nudges: int = 2
    """How often in an episode a model is told that its reply cannot be read."""

    @classmethod
    def of(cls, given: Any) -> Chat | None:
        """From `True`, the fields as a mapping, or a `Chat`; None for `False` and `None`."""
        if given is None or given is False:
            return None
        if isinstance(given, Chat):
            return given
        try:
            chat = cls(**({} if given is True else given))
        except TypeError as error:
            raise UsageError(f"chat is {given!r:.80}: {error}", "use chat=True, or Chat(format=…, nudges=…)") from None
        if not isinstance(chat.nudges, int) or chat.nudges < 0 or not isinstance(chat.format, str):
            raise UsageError(f"chat is {given!r:.80}", "use chat=True, or Chat(format=…, nudges=…)")
        return chat


@dataclass
class ChatObservation(Observation):
    """What the model is told: messages to append to the conversation, after the reply that they answer."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    """In OpenAI's form."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    """The tools that the model may call, in OpenAI's form."""


def reply_rule(_agent: str | None = None) -> ActionRule:
    """A reply of a model is a message; whether it is an action is for the environment to say."""
    from envweave.chat.messages import message_of  # loaded if it is asked for

    return ActionRule(message_of, name="message")

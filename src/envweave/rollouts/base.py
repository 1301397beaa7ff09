"""What a policy is, and what it is given.

A policy is any of these:

    async def reply(conversation): …        returns a `Reply`, a text or a message
    an object with `reply(conversation)`    the same, awaited or not
    a `LanguageModel`                       any OpenAI-compatible endpoint
    def act(observation): …                 a plain function from an observation to an action
    def act(observation, request): …        the same; the request has the schema of the action
    {"alice": policy, "bob": policy}        one for each agent

Policies of the first three forms play the chat form of an environment (`ew.make(id, chat=True)`), plain functions the
environment itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from envweave.lm.reply import Reply

ChatMessage: TypeAlias = dict[str, Any]
"""A message in OpenAI's form."""


@dataclass(slots=True)
class Conversation:
    """What a policy is asked to continue. It belongs to one agent of one episode; a policy must not change it."""

    messages: list[ChatMessage] = field(default_factory=list)
    """All of it, replies included."""
    new: list[ChatMessage] = field(default_factory=list)
    """The messages since the last reply; at first, all of them."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    """Functions that may be called, in OpenAI's form."""
    last: Reply | None = None
    """The policy's last reply, with its tokens."""
    last_tools: list[dict[str, Any]] = field(default_factory=list)
    """The functions that it could call."""
    agent_id: str | None = None
    """None in an environment with one agent."""
    max_tokens: int | None = None
    """The longest reply that the budgets of the rollout allow."""

    def hear(self, messages: list[ChatMessage], tools: list[dict[str, Any]]) -> None:
        """Add what the environment says."""
        self.new = [*self.new, *messages]
        self.messages = [*self.messages, *messages]
        self.tools = tools

    def say(self, reply: Reply) -> None:
        """Add the reply."""
        self.messages = [*self.messages, reply.message.to_dict()]
        self.new, self.last, self.last_tools = [], reply, self.tools

    def copy(self) -> Conversation:
        """An independent conversation: the lists are replaced, never changed."""
        return replace(self)


class Policy(Protocol):
    """Replies to conversations of any number of episodes at once."""

    async def reply(self, conversation: Conversation) -> Reply:
        """The next message. An exception fails the attempt, which is repeated on a fresh environment."""


PolicyLike: TypeAlias = Any
"""See the head of this module."""

Policies: TypeAlias = Mapping[str, PolicyLike]

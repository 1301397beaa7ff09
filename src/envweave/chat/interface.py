"""From replies of a model to actions, and from observations to messages: what the author defines, or else what the
schemas say.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from envweave.chat.formats import ChatFormat, format_for, takes_tool_calls
from envweave.chat.messages import message_of, tool_message, user_message
from envweave.chat.options import Chat, ChatObservation
from envweave.chat.text import observation_text
from envweave.core.actions import ActionRule
from envweave.errors import EnvWeaveError, InvalidActionError, describe
from envweave.tools.registry import registry_of

RuleOf: TypeAlias = Callable[[Any, "str | None"], ActionRule]
"""From an environment and an agent to the rule of its actions."""

BEGIN = "The episode begins."
"""What a model is told at first if the environment says nothing: some endpoints refuse an empty message."""


class UnreadableReply(Exception):  # noqa: N818  (it never leaves this package)
    """The reply of an agent is not an action."""

    def __init__(self, error: InvalidActionError, agent: str | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.agent = agent


class ChatInterface:
    """How one environment talks to a model. It knows nothing of the episode."""

    def __init__(self, env: Any, chat: Chat, rule_of: RuleOf) -> None:
        self._env = env
        self._chat = chat
        self._rule_of = rule_of
        self.listed: list[dict[str, Any]] = []
        """The tools of an environment of OpenEnv's, which takes a call to list them."""

    @property
    def listing(self) -> Callable[[], Any] | None:
        """The call that lists the tools, if it takes one. Its value is for `listed`."""
        tools: Any = getattr(self._env, "tools", None)
        return tools.list if _is_listed(tools) else None

    # From replies to actions.

    def read(self, agent: str | None, reply: Any, calls: dict[str | None, list[str]]) -> list[Any]:
        """The actions of a reply; `calls` receives the IDs of its tool calls. Raises `UnreadableReply`.

        Whatever an author's `read_reply` raises is such a reply: the model has written what the author did not expect.
        """
        message = message_of(reply)
        calls[agent] = [call.id for call in message.tool_calls]
        own = getattr(self._env, "read_reply", None)
        try:
            actions = [own(message)] if callable(own) else self._format(agent).read(message)
            check = self._rule_of(self._env, agent).check
            return [check(action) for action in actions]
        except InvalidActionError as error:
            raise UnreadableReply(error, agent) from error
        except (ValueError, EnvWeaveError) as error:
            raise UnreadableReply(InvalidActionError(str(error) or "the reply cannot be read"), agent) from error
        except Exception as error:
            reason = f"the reply cannot be read: {describe(error)}"
            raise UnreadableReply(InvalidActionError(reason), agent) from error

    def _format(self, agent: str | None) -> ChatFormat:
        schema = self._rule_of(self._env, agent).schema
        schemas = self._tool_schemas() if takes_tool_calls(schema) else []
        return format_for(schema, tools=schemas, name=self._chat.format, description=self._description())

    def _tool_schemas(self) -> list[dict[str, Any]]:
        tools = getattr(self._env, "tools", None)
        return self.listed if _is_listed(tools) else registry_of(tools).schemas()

    # From observations to messages.

    def observation(self, agent: str | None, seen: Any, messages: list[dict[str, Any]]) -> ChatObservation:
        metadata = getattr(seen, "metadata", None)
        return ChatObservation(
            messages=messages,
            tools=self._format(agent).tools(),
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
        )

    def first_messages(self, prompt: str, agent: str | None, observation: Any) -> list[dict[str, Any]]:
        """The system prompt, and what the model is told of the task and of the first observation."""
        own = getattr(self._env, "system_prompt", None)
        system = self._description() if own is None else own
        name = f"You are {agent}." if agent is not None else ""
        system = "\n\n".join(part for part in (system, name, self._instructions(agent)) if part)
        if callable(getattr(self._env, "to_messages", None)):
            first = self._shown(observation)
        else:
            text = observation_text(observation)
            first = [user_message(text if prompt.strip() in text else "\n\n".join(filter(None, (prompt, text))))]
        first = [user_message(BEGIN)] if first == [user_message("")] else first
        return [{"role": "system", "content": system}, *first] if system else first

    def answers(self, observation: Any, calls: list[str]) -> list[dict[str, Any]]:
        """The messages that follow a reply: they answer its tool calls, if it has any."""
        shown = self._shown(observation)
        if not calls:
            return shown
        text = "\n".join(str(message.get("content") or "") for message in shown)
        return [tool_message(call, text if place == 0 else "") for place, call in enumerate(calls)]

    def nudge(self, error: InvalidActionError, agent: str | None, calls: list[str]) -> list[dict[str, Any]]:
        """What a model is told about a reply that was not used."""
        text = "\n\n".join(part for part in (error.message, error.hint, self._instructions(agent)) if part)
        return [tool_message(call, text) for call in calls] or [user_message(text)]

    def _instructions(self, agent: str | None) -> str:
        """How to write a reply; an author who reads replies says so in the system prompt."""
        return "" if callable(getattr(self._env, "read_reply", None)) else self._format(agent).instructions()

    def _shown(self, observation: Any) -> list[dict[str, Any]]:
        own = getattr(self._env, "to_messages", None)
        shown = own(observation) if callable(own) else observation_text(observation)
        if isinstance(shown, str):
            return [user_message(shown)]
        return [message_of(one, role="user").to_dict() for one in ([shown] if isinstance(shown, Mapping) else shown)]

    def _description(self) -> str:
        return inspect.getdoc(type(getattr(self._env, "unwrapped", self._env))) or ""


def _is_listed(tools: Any) -> bool:
    """Whether tools are those of an environment of OpenEnv's."""
    return callable(getattr(tools, "list", None))

"""Policies: a model endpoint, a script, a plain function, random actions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from typing_extensions import Unpack

from envweave.chat.messages import message_of
from envweave.core.sample import sample
from envweave.core.threads import run_in_thread
from envweave.errors import InvalidReplyError, UsageError
from envweave.lm.model import LanguageModel
from envweave.lm.options import CallOptions
from envweave.lm.reply import Reply
from envweave.requests import NeedAction
from envweave.rollouts.base import Conversation, Policy

_SHAPES = "use async def reply(conversation), def act(observation), a LanguageModel, or an object with reply()"


class ModelPolicy:
    """Asks an OpenAI-compatible endpoint. `options` are those of each call: `temperature`, `logprobs`, ….

    `version` names the weights behind the endpoint; set it whenever they change.
    """

    def __init__(
        self, model: LanguageModel, *, version: int | str | None = None, **options: Unpack[CallOptions]
    ) -> None:
        self.model = model
        self.version = version
        self._options = options

    async def reply(self, conversation: Conversation) -> Reply:
        version = self.version
        options: CallOptions = {**self._options, "tools": conversation.tools}
        if conversation.max_tokens is not None:
            own = options.get("max_tokens")
            options["max_tokens"] = min(conversation.max_tokens, own) if own else conversation.max_tokens
        reply = await self.model.aio.reply(conversation.messages, **options)
        return replace(reply, policy_version=version)


class ScriptedPolicy:
    """Says what it is told to: the n-th reply of a list, or what a function makes of the messages.

    A list is said from its beginning in every episode; when it ends, its last reply is repeated.
    """

    def __init__(self, script: Sequence[Any] | Callable[[list[dict[str, Any]]], Any]) -> None:
        if not callable(script) and (isinstance(script, str) or not script):
            raise UsageError("a script is a list of replies or a function", "ScriptedPolicy(['first', 'second'])")
        self._script = script

    async def reply(self, conversation: Conversation) -> Reply:
        if callable(self._script):
            return as_reply(self._script(conversation.messages))
        said = sum(message.get("role") == "assistant" for message in conversation.messages)
        return as_reply(self._script[min(said, len(self._script) - 1)])


class CallablePolicy:
    """An async function of a conversation, or an object whose `reply` is sync or gives something like a reply."""

    def __init__(self, function: Callable[[Conversation], Any]) -> None:
        self._function = function
        self._is_async = _is_async(function)

    async def reply(self, conversation: Conversation) -> Reply:
        if self._is_async:
            return as_reply(await self._function(conversation))
        reply = await run_in_thread(partial(self._function, conversation))
        return as_reply(await reply if inspect.isawaitable(reply) else reply)


class FunctionPolicy:
    """A plain function from an observation, and the request for the action if it takes two arguments, to an action."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._takes_request = _takes_two(function)
        self._is_async = _is_async(function)

    async def act(self, observation: Any, need: NeedAction) -> Any:
        arguments = (observation, need) if self._takes_request else (observation,)
        if self._is_async:
            return await self._function(*arguments)
        action = await run_in_thread(partial(self._function, *arguments))
        return await action if inspect.isawaitable(action) else action


class RandomPolicy(FunctionPolicy):
    """Draws any action that fits the schema."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(self._draw)
        self._random = Random(seed)

    def _draw(self, _observation: Any, need: NeedAction) -> Any:
        return sample(need.action_schema, self._random)

    async def act(self, observation: Any, need: NeedAction) -> Any:
        return self._draw(observation, need)


def policies_of(policy: Any) -> dict[str | None, Policy | FunctionPolicy]:
    """The policy of each agent; under None, that of all agents that are not named. Raises `UsageError`."""
    if not isinstance(policy, Mapping):
        return {None: policy_of(policy)}
    if not policy:
        raise UsageError("no policies: the dict is empty", "{'alice': policy, 'bob': policy}")
    found: dict[str | None, Policy | FunctionPolicy] = {str(agent): policy_of(one) for agent, one in policy.items()}
    if len({isinstance(one, FunctionPolicy) for one in found.values()}) > 1:
        raise UsageError("some policies are given observations and others conversations", "use one kind for all agents")
    return found


def policy_of(policy: Any) -> Policy | FunctionPolicy:
    """The policy that any of the accepted forms is. Raises `UsageError`."""
    if isinstance(policy, (ModelPolicy, ScriptedPolicy, CallablePolicy, FunctionPolicy)):
        return policy
    if isinstance(policy, LanguageModel):
        return ModelPolicy(policy)
    if policy == "random":
        return RandomPolicy()
    if isinstance(policy, type):
        raise UsageError(f"{policy.__name__} is a class, not a policy", f"{policy.__name__}(…)")
    own = getattr(policy, "reply", None)
    if callable(own):
        return CallablePolicy(own)
    if not callable(policy):
        raise UsageError(f"{policy!r:.100} is not a policy", _SHAPES)
    return CallablePolicy(policy) if _is_async(policy) and not _takes_two(policy) else FunctionPolicy(policy)


def policy_name(policy: Any) -> str:
    """What a record calls a policy: the name of its model, or else of its function or class."""
    if isinstance(policy, Mapping):
        return ", ".join(f"{agent}: {policy_name(one)}" for agent, one in policy.items())
    model = policy.model if isinstance(policy, ModelPolicy) else policy
    if isinstance(model, LanguageModel):
        return model.model
    return policy if isinstance(policy, str) else getattr(policy, "__qualname__", None) or type(policy).__name__


def as_reply(said: Any) -> Reply:
    """The reply that a policy's answer is: a `Reply`, a text, a message."""
    if isinstance(said, Reply):
        return said
    try:
        return Reply(message_of(said))
    except UsageError as error:
        raise InvalidReplyError(f"the policy answered with {said!r:.100}: {error.message}", error.hint) from error


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a signature that cannot be read
        return True
    return True

"""What a model answered, and how many tokens it took. Answers are read without trust in the endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envweave.errors import InvalidReplyError, LanguageModelError
from envweave.lm.failures import not_json, refusal
from envweave.lm.messages import FunctionCall, Message, encodable
from envweave.lm.secrets import Secret

NO_THINKING = "raise max_tokens, or turn thinking off: extra_body={'chat_template_kwargs': {'enable_thinking': False}}"


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls and tokens, as the endpoint counts them; one that does not count adds nothing. They can be added."""

    calls: int = 0
    """Calls begun. One that was tried three times is one."""
    failures: int = 0
    """Calls that failed."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the endpoint had in its cache."""
    reasoning_tokens: int = 0
    """Completion tokens that were thoughts."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a model. Lists that the endpoint did not give are None."""

    message: Message
    """The answer as a message: append it to the conversation."""
    finish_reason: str | None = None
    """`stop`, `length`, `tool_calls`, `content_filter`; other words, or None, if the endpoint says so."""
    usage: Usage = Usage()
    """Of the call. Of several replies to one call, the first has all of it."""
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    """Tokens as they were drawn. Never encode the text again: the result may differ."""
    logprobs: tuple[float, ...] | None = None
    """Logarithms of the probabilities of the drawn tokens."""
    refusal: str | None = None
    model: str = ""
    policy_version: int | str | None = None
    """The weights that drew it, if the policy knows."""

    @property
    def text(self) -> str:
        """The text; empty for a reply that consists of tool calls or thoughts."""
        return self.message.content if isinstance(self.message.content, str) else ""

    @property
    def tool_calls(self) -> tuple[FunctionCall, ...]:
        return self.message.tool_calls

    @property
    def reasoning(self) -> str | None:
        return self.message.reasoning

    @property
    def truncated(self) -> bool:
        """Whether the reply was cut off at `max_tokens` or at the end of the context."""
        return self.finish_reason == "length"

    def require_text(self) -> str:
        """The text. Raises `LanguageModelError` if the model answered without one."""
        if self.message.content is not None and (self.text or not self.reasoning):
            return self.text
        if self.tool_calls:
            raise LanguageModelError(f"model {self.model!r:.100} answered with tool calls and no text", "use reply")
        if self.reasoning:
            raise LanguageModelError(f"model {self.model!r:.100} answered with reasoning and no text", NO_THINKING)
        reason = self.refusal or self.finish_reason or "no reason given"
        raise LanguageModelError(f"model {self.model!r:.100} answered without text: {reason:.300}")


def read_answer(data: Any, *, model: str, url: str, secret: Secret) -> tuple[Reply, ...]:
    """The replies in what an endpoint answers with status 200. Raises the `LanguageModelError` that it is instead."""
    if isinstance(data, str):  # it is not said to be JSON
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            raise not_json(data, url=url, secret=secret) from None
    if not isinstance(data, Mapping):
        raise not_json(repr(data), url=url, secret=secret)
    if data.get("error"):
        raise refusal(200, data["error"], model=model, url=url, secret=secret)
    try:
        return _read_replies(data, model, secret)
    except InvalidReplyError as error:
        raise InvalidReplyError(f"{url}: {error.message}", "is it an OpenAI-compatible endpoint?") from None


def _read_replies(data: Mapping[str, Any], model: str, secret: Secret) -> tuple[Reply, ...]:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices:
        raise InvalidReplyError("the answer has no choices")
    usage = read_usage(data.get("usage"))
    prompt = _numbers(data.get("prompt_token_ids"), int)
    name = _text(data.get("model"), secret) or model
    return tuple(
        _read_choice(choice, secret, usage=Usage() if place else usage, prompt_token_ids=prompt, model=name)
        for place, choice in enumerate(choices)
    )


def read_usage(found: Any) -> Usage:
    """The counts of one call; those that make no sense are 0."""

    def count(*path: str) -> int:
        value = found
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

    return Usage(
        calls=1,
        prompt_tokens=count("prompt_tokens"),
        completion_tokens=count("completion_tokens"),
        cached_tokens=count("prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=count("completion_tokens_details", "reasoning_tokens"),
    )


def _read_choice(choice: Any, secret: Secret, **rest: Any) -> Reply:
    said = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(said, Mapping):
        raise InvalidReplyError("the answer has a choice without a message")
    calls = said.get("tool_calls") or []
    if not isinstance(calls, list):
        raise InvalidReplyError("the tool calls of the answer are not a list")
    message = Message(
        "assistant",
        _content(said.get("content"), secret),
        tool_calls=tuple(_read_tool_call(call, secret) for call in calls),
        reasoning=_text(said.get("reasoning_content"), secret) or _text(said.get("reasoning"), secret),
    )
    return Reply(
        message,
        _shown(choice.get("finish_reason"), secret),
        token_ids=_numbers(choice.get("token_ids"), int),
        logprobs=_logprobs(choice.get("logprobs")),
        refusal=_shown(said.get("refusal"), secret),
        **rest,
    )


def _content(content: Any, secret: Secret) -> str | None:
    """A text, or the texts of a list of parts, joined; None if there is none."""
    if isinstance(content, list):
        texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        content = "".join(text for text in texts if isinstance(text, str)) or None
    if content is not None and not isinstance(content, str):
        raise InvalidReplyError(f"the content of the answer is neither text nor parts, but {type(content).__name__}")
    return _text(content, secret)


def _read_tool_call(call: Any, secret: Secret) -> FunctionCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str) or not name:
        raise InvalidReplyError("the answer has a tool call without the name of a function")
    arguments = function.get("arguments") or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)  # some endpoints parse it for us
    return FunctionCall(
        _text(call.get("id"), secret) or "", secret.strike(encodable(name)), secret.strike(encodable(text))
    )


def _text(value: Any, secret: Secret) -> str | None:
    return secret.strike(encodable(value)) if isinstance(value, str) else None


def _shown(value: Any, secret: Secret) -> str | None:
    """A text that may become part of an error."""
    return secret.hide(encodable(value)) if isinstance(value, str) else None


def _logprobs(found: Any) -> tuple[float, ...] | None:
    tokens = found.get("content") if isinstance(found, Mapping) else None
    if not isinstance(tokens, list):
        return None
    return _numbers([token.get("logprob") if isinstance(token, Mapping) else None for token in tokens], float)


def _numbers(found: Any, kind: type) -> tuple[Any, ...] | None:
    """The numbers of a list; None if one of them is something else."""
    kinds = (int,) if kind is int else (int, float)
    if not isinstance(found, list) or not all(type(number) in kinds for number in found):
        return None
    return tuple(map(kind, found))

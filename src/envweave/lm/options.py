"""Options of a call, and the request that they make."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from envweave.core.suggest import nearest
from envweave.errors import UsageError
from envweave.lm.limits import check_limits
from envweave.lm.messages import Messages, encodable, messages_to_data

RESERVED = ("messages", "model", "n", "stream")
"""Fields of a request that `extra_body` must not set."""

LETTERS_PER_TOKEN = 4
"""A guess, to reserve tokens of a limit before the endpoint has counted them."""


class CallOptions(TypedDict, total=False):
    """Options of a model, which each call may replace. What is None is not sent."""

    temperature: float | None
    max_tokens: int | None
    top_p: float | None
    stop: str | Sequence[str] | None
    seed: int | None
    tools: Sequence[Mapping[str, Any]] | None
    """Functions that the model may call, in OpenAI's form: `{"type": "function", "function": {…}}`. Endpoints refuse an
    empty list, so none is sent."""
    tool_choice: str | Mapping[str, Any] | None
    logprobs: bool | None
    """Ask for the log-probabilities of the drawn tokens."""
    return_token_ids: bool | None
    """Ask for the tokens themselves. vLLM gives them; an endpoint that does not know this may refuse the call."""
    extra_body: Mapping[str, Any]
    """Further fields of the request: `top_k`, `chat_template_kwargs`, …; added to those of the model."""
    timeout: float
    """Seconds for the whole call."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent, for how long, and about how many tokens it takes."""

    body: dict[str, Any]
    timeout: float
    tokens: int


def make_request(
    model: str, messages: Messages, defaults: CallOptions, options: CallOptions, *, n: int = 1, stream: bool = False
) -> Request:
    """The request for one call. Raises `UsageError` for what cannot be sent."""
    fields: dict[str, Any] = {**defaults, **options}
    _check_names(fields)
    check_limits(**fields, n=n)
    timeout = fields.pop("timeout")
    if not isinstance(model, str) or not model:
        raise UsageError(f"a model is named by a string, not {model!r:.100}")
    extra = {**defaults.get("extra_body", {}), **(fields.pop("extra_body", None) or {})}
    if taken := sorted(set(extra) & set(RESERVED)):
        raise UsageError(f"extra_body has fields that are not its own: {', '.join(taken)}")
    if n > 1:
        fields["n"] = n
    fields["tools"] = fields.get("tools") or None
    if stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    used = {key: value for key, value in {**fields, **extra}.items() if value is not None}
    text = _json({"model": model, "messages": messages_to_data(messages), **used})
    tokens = len(text) // LETTERS_PER_TOKEN + (fields.get("max_tokens") or 0) * n
    return Request(json.loads(text), timeout, tokens)


def _check_names(fields: Mapping[str, Any]) -> None:
    for name in fields:
        if name not in CallOptions.__annotations__:
            near = "replies" if name == "n" else nearest(name, CallOptions.__annotations__)
            hint = f"did you mean {near!r}?" if near else "other fields of the request go into extra_body={…}"
            raise UsageError(f"a call has no option {name!r}", hint)


def _json(data: Mapping[str, Any]) -> str:
    """A text without lone surrogates, which UTF-8 cannot write."""
    try:
        return encodable(json.dumps(data, allow_nan=False, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"what is sent to a model must be JSON: {error}") from error

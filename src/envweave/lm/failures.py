"""Failures of an endpoint as errors of ours, without the token."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from envweave.errors import (
    ContextOverflowError,
    InvalidReplyError,
    LanguageModelError,
    ModelAuthenticationError,
    ModelUnavailableError,
    RateLimitError,
    describe,
)
from envweave.lm.secrets import Secret

LONGEST_REASON = 300
"""Characters of what an endpoint says in an error that are passed on."""

BUSY = (408, 409, 425)
"""Statuses below 500 after which the same call may work, besides 429."""

OVERFLOW = (
    "context_length_exceeded",  # OpenAI, Groq: the code
    "exceed_context_size",  # llama.cpp: the type
    "maximum context length",  # OpenAI, vLLM, SGLang, DeepSeek
    "maximum model length",  # vLLM
    "model's context length",  # SGLang
    "available context size",  # llama.cpp
    "exceeds the context window",  # OpenAI
    "maximum context limit",  # Bedrock
    "exceed context limit",  # Anthropic
    "prompt is too long",  # Anthropic
    "max_new_tokens` must be <=",  # TGI
    "maximum number of tokens allowed",  # Gemini
)
"""What endpoints say, in lower case, when a conversation is too long."""


def refusal(status: int, body: Any, *, model: str, url: str, secret: Secret) -> LanguageModelError:
    """The error for an HTTP status, or for an error that came with status 200, and the body that came with it."""
    said = _reason(body, secret)
    reason = f": {said}" if said else ""
    code = body.get("code") if isinstance(body, Mapping) else None
    if isinstance(code, int) and 400 <= code < 600 and 200 <= status < 300:
        status = code
    whole = (body if isinstance(body, str) else json.dumps(body, default=str)).lower()
    if status != 429 and any(words in whole for words in OVERFLOW):
        hint = "shorten the conversation, or ask for fewer tokens with max_tokens"
        return ContextOverflowError(f"the conversation is too long for model {model!r:.100}{reason}", hint)
    if status == 429:
        return RateLimitError(f"{url} receives too many requests (HTTP 429){reason}", "lower max_concurrency")
    if status in BUSY or status >= 500:
        return ModelUnavailableError(f"{url} cannot answer now (HTTP {status}){reason}")
    if status in (401, 403):
        hint = "is the key right, and may it use this model?" if secret else "it wants an api_key, and there is none"
        return ModelAuthenticationError(f"{url} refuses the key (HTTP {status}){reason}", hint)
    if status == 404:
        return LanguageModelError(f"{url} has no model {model!r:.100} (HTTP 404){reason}", "does base_url end in /v1?")
    if 300 <= status < 400:
        hint = "give base_url as it really is: a key does not follow a redirect"
        return LanguageModelError(f"{url} redirects elsewhere (HTTP {status})", hint)
    return LanguageModelError(f"{url} refuses the call (HTTP {status}){reason}")


def connection_failure(error: Exception, *, url: str, secret: Secret) -> LanguageModelError:
    """The error for a connection that was not made or broke, or for any other exception of the HTTP library."""
    causes = list(_causes(error))
    names = {cls.__name__ for one in causes for cls in type(one).__mro__}  # of openai, httpx or httpx2
    reason = secret.hide(describe(next((one for one in reversed(causes) if str(one)), error)))[:LONGEST_REASON]
    if any(isinstance(one, socket.gaierror) for one in causes):
        return ModelUnavailableError(f"the host of {url} has no address", "check base_url and the network")
    if any(isinstance(one, ssl.SSLCertVerificationError) for one in causes):
        return LanguageModelError(f"the certificate of {url} cannot be trusted: {reason}")
    if names & {"ConnectError", "ConnectTimeout"}:
        hint = "is the server running? check base_url and the network"
        return ModelUnavailableError(f"cannot connect to {url}: {reason}", hint)
    if names & {"APIConnectionError", "TransportError", "OSError"}:
        return ModelUnavailableError(f"{url} ended the call without an answer: {reason}")
    return LanguageModelError(f"the call to {url} failed: {reason}")


def not_json(text: str, *, url: str, secret: Secret) -> InvalidReplyError:
    """The error for an answer that is not JSON."""
    return InvalidReplyError(f"{url} does not answer in JSON: {_line(text, secret)!r}", "does base_url end in /v1?")


def _reason(body: Any, secret: Secret) -> str:
    """What a body says went wrong, in the forms that are in use; or the body itself."""
    found = body
    for key in ("error", "message", "detail"):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
    if found in (None, ""):
        return ""
    return _line(found if isinstance(found, str) else json.dumps(body, default=str, ensure_ascii=False), secret)


def _line(text: str, secret: Secret) -> str:
    """One short line that can be shown, without the token."""
    letters = (letter if letter.isprintable() else " " for letter in text[: 8 * LONGEST_REASON])
    line = secret.hide(" ".join("".join(letters).split()))
    return line if len(line) <= LONGEST_REASON else line[:LONGEST_REASON] + "…"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _causes(one)
        error = error.__cause__ or error.__context__

"""What an endpoint answers, read without trust: a text, or the error to raise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envweave.errors import LanguageModelError, ModelUnavailableError
from envweave.lm.secret import Secret

LONGEST_REASON = 300
"""Characters of what an endpoint says in an error that are passed on."""

BUSY = (408, 409, 425, 429)
"""Statuses below 500 after which the same call may work."""

NO_THINKING = "raise max_tokens, or turn thinking off: extra={'chat_template_kwargs': {'enable_thinking': False}}"


@dataclass(frozen=True)
class Raw:
    """A response as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool
    """False if it was longer than we read."""


@dataclass(frozen=True)
class Answer:
    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


def read_answer(raw: Raw, *, model: str, url: str, secret: Secret) -> Answer | LanguageModelError:
    """The answer, or the error that it is. Nothing is raised."""
    if not 200 <= raw.status < 300:
        return _refusal(raw.status, _said(raw, secret), model=model, url=url, secret=secret)
    if not raw.whole:
        return LanguageModelError(f"the answer of {url} is longer than {len(raw.body)} bytes")
    if raw.headers.get("content-encoding", "identity") != "identity":
        return LanguageModelError(f"{url} compresses its answer, and was asked not to")
    data = _parsed(raw.body)
    if not isinstance(data, Mapping):
        shown = _shown(_text_of(raw.body), secret)
        return LanguageModelError(f"{url} does not answer in JSON: {shown!r}", "does base_url end in /v1?")
    if data.get("error"):
        status = data["error"].get("code") if isinstance(data["error"], Mapping) else None
        status = status if isinstance(status, int) and 400 <= status < 600 else raw.status
        return _refusal(status, _said(raw, secret), model=model, url=url, secret=secret)
    return _content(data, model=model, url=url, secret=secret)


def _content(data: Mapping[str, Any], *, model: str, url: str, secret: Secret) -> Answer | LanguageModelError:
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        return LanguageModelError(f"{url} answers without a message", "is it an OpenAI-compatible endpoint?")
    text = _joined(message.get("content"))
    thought = message.get("reasoning_content") or message.get("reasoning")
    if not text and thought:
        return LanguageModelError(f"model {model!r:.100} answered with reasoning only, and no text", NO_THINKING)
    if text is None:
        reason = message.get("refusal") or choice.get("finish_reason") or "no reason given"
        return LanguageModelError(f"model {model!r:.100} answered without text: {_shown(str(reason), secret)}")
    usage = data.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    text = secret.strike(_encodable(text))
    return Answer(text, _count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")))


def _joined(content: Any) -> str | None:
    """The text of a content that is one, or a list of parts; None if there is none in it."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    found = [text for text in texts if isinstance(text, str)]
    return "".join(found) if found else None


def _refusal(status: int, reason: str, *, model: str, url: str, secret: Secret) -> LanguageModelError:
    reason = f": {reason}" if reason else ""
    if status in BUSY or status >= 500:
        return ModelUnavailableError(f"{url} cannot answer now (HTTP {status}){reason}")
    if status in (401, 403):
        hint = "is the token right, and may it use this model?" if secret else "it wants a token, and there is none"
        return LanguageModelError(f"{url} refuses the token (HTTP {status}){reason}", hint)
    if status == 404:
        return LanguageModelError(f"{url} has no model {model!r:.100} (HTTP 404){reason}", "does base_url end in /v1?")
    if 300 <= status < 400:
        hint = "give base_url as it really is: a token does not follow a redirect"
        return LanguageModelError(f"{url} redirects elsewhere (HTTP {status})", hint)
    return LanguageModelError(f"{url} refuses the call (HTTP {status}){reason}")


def _said(raw: Raw, secret: Secret) -> str:
    """What a body says went wrong, in the forms that are in use; or the body itself."""
    found: Any = _parsed(raw.body)
    for key in ("error", "message", "detail"):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
    return _shown(found if isinstance(found, str) else _text_of(raw.body), secret)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _text_of(body: bytes) -> str:
    return body[: 8 * LONGEST_REASON].decode(errors="replace")


def _shown(text: str, secret: Secret) -> str:
    """One short line that can be shown, without the token."""
    letters = (letter if letter.isprintable() else " " for letter in text[: 8 * LONGEST_REASON])
    line = secret.hide(" ".join("".join(letters).split()))
    return line if len(line) <= LONGEST_REASON else line[:LONGEST_REASON] + "…"


def _encodable(text: str) -> str:
    """The text without lone surrogates, which JSON can write and nothing else can carry."""
    return text.encode(errors="surrogatepass").decode(errors="replace")


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

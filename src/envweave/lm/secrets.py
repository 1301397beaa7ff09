"""A token that is sent and never shown.

Covered: `repr`, `vars`, pickle and copies; what an endpoint says in an error, also if it repeats the token whole, in
part, in the other case or quoted for a URL; an answer or a stream that has it in its text as it is; what `openai` and
the HTTP library log. Not covered: a debugger, a memory dump, an endpoint that writes it into an answer in another form.
"""

from __future__ import annotations

from contextvars import ContextVar
from itertools import groupby
from typing import NoReturn
from urllib.parse import quote

from envweave.core.log_redaction import redact_logs
from envweave.errors import UnsupportedError, UsageError

SHORTEST_PIECE = 8
"""So many characters of a token in a row are hidden too: a text may have been cut in the middle of it."""

LIKE_NO_WORD = 16
"""Characters."""

HIDDEN = "[token]"
LOGGERS = (
    *("openai", "openai._base_client", "openai._response", "openai._legacy_response", "httpx", "httpx2"),
    *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
)

_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}  # unlike str.lower, of the same length


class Secret:
    """The token of an endpoint; an empty one is no token. Raises `UsageError` for what no header can carry."""

    __slots__ = ("__value",)

    def __init__(self, value: str | None) -> None:
        if value is not None and not isinstance(value, str):
            raise UsageError(f"a token is a string, not {type(value).__name__}")
        value = value or ""
        if not (value.isascii() and value.isprintable()) or " " in value:
            raise UsageError(
                "the token has characters that no header can carry", "is there a newline or space at its end?"
            )
        self.__value = value

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __repr__(self) -> str:
        return "Secret(hidden)" if self else "Secret(none)"

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("a token is not copied or pickled")

    def headers(self) -> dict[str, str]:
        """What goes with a request. The only way out."""
        return {"authorization": f"Bearer {self.__value}"} if self else {}

    def strike(self, text: str) -> str:
        """An answer without the token. One so short that it may be a word is left: local servers take any."""
        return text.replace(self.__value, HIDDEN) if len(self.__value) >= LIKE_NO_WORD else text

    def held_back(self, text: str) -> int:
        """How many characters at the end of a stream may be the beginning of the token."""
        if len(self.__value) < LIKE_NO_WORD:
            return 0
        longest = min(len(text), len(self.__value) - 1)
        return next((size for size in range(longest, 0, -1) if text.endswith(self.__value[:size])), 0)

    def hide(self, text: str) -> str:
        """The text without the token and without any longer piece of it."""
        if not self:
            return text
        lowered, marks = text.translate(_LOWER), bytearray(len(text))
        for form in (self.__value, quote(self.__value, safe="")):
            _mark(lowered, form.translate(_LOWER), marks)
        runs = groupby(zip(text, marks, strict=True), key=lambda pair: pair[1])
        return "".join(HIDDEN if marked else "".join(letter for letter, _ in pairs) for marked, pairs in runs)


def _mark(text: str, token: str, marks: bytearray) -> None:
    """Mark the letters that belong to a piece of the token."""
    size = min(len(token), SHORTEST_PIECE)
    pieces = {token[start : start + size] for start in range(len(token) - size + 1)}
    for start in range(len(text) - size + 1):
        if text[start : start + size] in pieces:
            marks[start : start + size] = b"\1" * size


IN_USE: ContextVar[Secret | None] = ContextVar("envweave_secret_in_use", default=None)
"""The token of the call that is being made here."""


def redact_http_logs() -> None:
    """Hide the token of a call in what the packages log: at DEBUG that includes headers of the answer."""
    redact_logs(LOGGERS, _redact)


def _redact(text: str) -> str:
    secret = IN_USE.get()
    return secret.hide(text) if secret else text

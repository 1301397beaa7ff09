"""Hide secrets in the lines of a record before they are written.

Covered: values of variables of this process that are named like secrets, values given by the caller, and tokens and
private keys of well-known forms. Not covered: a secret that is split, encoded or written in another way.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping

SHORTEST = 8
"""Characters. A shorter value may be part of any word."""

_SECRET_NAME = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD|SECRET_ACCESS_KEY)$")

_MARKERS = (b"sk-", b"hf_", b"gh", b"xox", b"AKIA", b"earer ", b"-----BEGIN")
"""A line without any of these matches no pattern."""

_PATTERNS = re.compile(
    rb"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf]))"  # the letter before may belong to an escape such as \n
    rb"(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}"
    rb"|xox[a-z]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16})"
    rb"|(?<=[Bb]earer )[A-Za-z0-9._~+/-]{8,}=*"
    rb"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=\")|$)",
    re.DOTALL,
)


class Redactor:
    """Replaces secrets by `«redacted:…»` with eight digits of their SHA-256, so that equal secrets stay equal."""

    def __init__(self, secrets: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environ is None else environ
        named = [value for name, value in variables.items() if _SECRET_NAME.search(name.upper())]
        values = {value for value in (*secrets, *named) if len(value) >= SHORTEST}
        forms = {form for value in values for form in (value, json.dumps(value)[1:-1], _escaped(value))}
        self._values = sorted((form.encode(errors="replace") for form in forms), key=len, reverse=True)
        self.count = 0
        """How many secrets were replaced."""

    def redact(self, line: bytes) -> bytes:
        """The line of JSON without secrets. It stays JSON."""
        for value in self._values:
            if value in line:
                self.count += line.count(value)
                line = line.replace(value, _mark(value))
        for marker in _MARKERS:
            if marker in line:
                return _PATTERNS.sub(self._replace, line)
        return line

    def redact_text(self, text: str) -> str:
        return self.redact(text.encode(errors="backslashreplace")).decode(errors="replace")

    def _replace(self, match: re.Match[bytes]) -> bytes:
        self.count += 1
        return _mark(match[0])


def _escaped(value: str) -> str:
    """The value inside of JSON that keeps letters of all languages."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _mark(secret: bytes) -> bytes:
    return f"«redacted:{hashlib.sha256(secret).hexdigest()[:8]}»".encode()

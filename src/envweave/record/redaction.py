"""Hide secrets in the lines of a record before they are written.

Covered: values of variables of this process, of arguments of environments and of options of the command that are named
like secrets; values given by the caller; passwords in URLs; tokens and private keys of well-known forms. Not covered: a
secret that is split, encoded or written in another way, and one of fewer than eight characters outside of the argument
that it was given with.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envweave.errors import RecordError
from envweave.record.encoding import decode, encode

SHORTEST = 8
"""Characters. A shorter value may be part of any word."""

_SECRET_NAME = re.compile(
    r"(API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET_?KEY|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTHORIZATION|COOKIE"
    r"|(?<!BOS_)(?<!EOS_)(?<!PAD_)(?<!UNK_)(?<!SEP_)(?<!CLS_)(?<!END_)(?<!STOP_)(?<!MASK_)TOKEN|_SECRET)$"
)


def _token(prefix: str, rest: str) -> re.Pattern[bytes]:
    r"""A token that begins with the prefix. The letter before it may belong to an escape such as \n."""
    return re.compile(rf"{prefix}(?:(?<![A-Za-z0-9_]{prefix})|(?<=\\[nrtbf]{prefix}))(?:{rest})".encode())


_PATTERNS = (
    (b"-", b"sk-", _token("sk-", "[A-Za-z0-9_-]{16,}")),
    (b"_", b"hf_", _token("hf_", "[A-Za-z0-9]{16,}")),
    (b"_", b"gh", _token("gh", "(?:[pousr]_|ithub_pat_)[A-Za-z0-9_]{16,}")),
    (b"-", b"xox", _token("xox", "[a-z]-[A-Za-z0-9-]{10,}")),
    (b"K", b"AKIA", _token("AKIA", "[0-9A-Z]{16}")),
    (b" ", b"earer ", re.compile(rb"(?P<kept>earer (?<=[Bb]earer ))[A-Za-z0-9._~+/-]{8,}=*")),
    (
        *(b"-", b"-----BEGIN"),
        re.compile(
            rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=\\?\")|$)", re.DOTALL
        ),
    ),
    (b"@", b"://", re.compile(rb"(?P<kept>://[^\s\"/@:]*:)[^\s\"/@\xc2]+(?=@)")),
    (b"?", b"://", re.compile(rb"(?P<kept>[?&](?:[a-z_-]*token|api_?key|key|secret|password)=)[^&\s\"#\\\xc2]+")),
)
"""Secrets of well-known forms: a byte and a text that a line must have, both faster to find than the pattern."""


class Redactor:
    """Replaces secrets by `«redacted:…»` with eight digits of their SHA-256, so that equal secrets stay equal."""

    def __init__(self, secrets: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environ is None else environ
        self._known: set[str] = set()
        self._forms: list[bytes] = []
        self.count = 0
        """How many secrets were replaced."""
        self._add([*secrets, *(value for name, value in variables.items() if is_secret(name))])

    def learned(self, data: Any) -> Any:
        """The data without values that are named like secrets. From now on they are hidden in all lines."""
        if isinstance(data, Mapping):
            return {
                name: self._hidden(value) if is_secret(name) else self.learned(value) for name, value in data.items()
            }
        return [self.learned(value) for value in data] if isinstance(data, list) else data

    def redact(self, line: bytes) -> bytes:
        """The line of JSON without secrets. It stays JSON."""
        count, found = self.count, self._replaced(line, self._forms)
        if self.count == count:
            return line
        try:
            decode(found)
        except RecordError:  # a secret looks like a number, or was next to a quotation mark
            self.count = count
            return encode(self._rebuilt(decode(line)))
        return found

    def redact_command(self, words: Sequence[str]) -> list[str]:
        """The words of a command line, of which some are options that are named like secrets."""
        found, before = [], ""
        for word in words:
            name, is_pair, _ = word.partition("=")
            if is_secret(before.lstrip("-")) and before.startswith("-"):
                found.append(self._hidden(word))
            elif is_pair and is_secret(name.lstrip("-")):
                found.append(f"{name}={self._hidden(word[len(name) + 1 :])}")
            else:
                found.append(self._text(word))
            before = word
        return found

    def _add(self, values: Iterable[str]) -> None:
        news = {value for value in values if len(value) >= SHORTEST} - self._known
        if news:
            self._known |= news
            forms = {form for value in self._known for form in (json.dumps(value)[1:-1], _escaped(value))}
            self._forms = sorted((form.encode(errors="replace") for form in forms), key=len, reverse=True)

    def _hidden(self, value: Any) -> Any:
        if not isinstance(value, str):
            return self.learned(value)
        self._add([value])
        self.count += 1
        return _mark(value.encode(errors="replace")).decode()

    def _replaced(self, line: bytes, secrets: Iterable[bytes]) -> bytes:
        for value in secrets:
            if value in line:
                self.count += line.count(value)
                line = line.replace(value, _mark(value))
        for byte, text, pattern in _PATTERNS:
            if byte in line and text in line:
                line = pattern.sub(self._marked, line)
        return line

    def _marked(self, match: re.Match[bytes]) -> bytes:
        self.count += 1
        kept = match.groupdict().get("kept", b"")
        return kept + _mark(match[0][len(kept) :])

    def _rebuilt(self, data: Any) -> Any:
        """The same for data. A number that contains a secret becomes text."""
        if isinstance(data, dict):
            return {self._text(name): self._rebuilt(value) for name, value in data.items()}
        if isinstance(data, list):
            return [self._rebuilt(value) for value in data]
        if isinstance(data, str):
            return self._text(data)
        text = json.dumps(data)
        hidden = self._text(text)
        return data if hidden == text else hidden

    def _text(self, text: str) -> str:
        data = text.encode(errors="backslashreplace")
        secrets = sorted((value.encode(errors="replace") for value in self._known), key=len, reverse=True)
        return self._replaced(data, secrets).decode(errors="replace")


def is_secret(name: Any) -> bool:
    """Whether a variable, an argument or an option has the name of a secret."""
    return isinstance(name, str) and _SECRET_NAME.search(name.upper().replace("-", "_")) is not None


def _escaped(value: str) -> str:
    """The value inside of JSON that keeps letters of all languages."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _mark(secret: bytes) -> bytes:
    return f"«redacted:{hashlib.sha256(secret).hexdigest()[:8]}»".encode()

"""Environment IDs: `scheme://locator[@version][?key=value&…]`, a bare name, `module:Class` or `path/to/file.py`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from envweave.errors import InvalidIDError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_NUMBERED = re.compile(r"(?P<base>.+)-v(?P<number>[0-9]{1,9})")
_URLS = frozenset({"http", "https", "ws", "wss"})
"""Schemes whose locator is a URL: `@` and `?` in it are the URL's own."""
_FILE = re.compile(r"(?P<locator>.+?\.py(?::[\w.]+)?)(?:@(?P<version>[^?]*))?(?:\?(?P<query>.*))?", re.DOTALL)
_WORD = r"[^\W\d]\w*"
_IMPORT = re.compile(rf"{_WORD}(?:\.{_WORD})*:{_WORD}(?:\.{_WORD})*")
_FOLDERS = ("./", "../", "/", "~/")

GRAMMAR = (
    "scheme://locator[@version][?key=value], "
    "e.g. 'lineworld', 'local://counter-v0', 'module:Class?size=7' or './file.py'"
)

SOURCES = "pass an ID such as 'lineworld' or './file.py', a class, a function that makes one, or an instance"


@dataclass(frozen=True, slots=True)
class EnvID:
    """A parsed ID. `str()` gives a string that parses to an equal one."""

    scheme: str
    """Empty for a bare name."""
    locator: str
    version: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Arguments for the factory; JSON where they are JSON, text otherwise."""

    @classmethod
    def parse(cls, text: str) -> EnvID:
        """Raise `InvalidIDError`, naming what is wrong with the string."""
        if not isinstance(text, str):
            raise InvalidIDError(f"an environment ID is a string, not {type(text).__name__}", SOURCES)
        scheme, separator, rest = text.partition("://")
        if not separator:
            scheme, rest = _implied_scheme(text), text
        elif not _SCHEME.fullmatch(scheme.lower()):
            raise InvalidIDError(f"{text!r} is not an environment ID: {scheme!r} is not a scheme", GRAMMAR)
        scheme = scheme.lower()
        blank = (c.isspace() and not (c == " " and scheme == "file") for c in text)
        if not text or text != text.strip() or any(blank) or not text.isprintable():
            raise InvalidIDError(f"{text!r} is not an environment ID: it is empty or has blanks", GRAMMAR)
        if scheme in _URLS:
            return cls(scheme, cls._filled(rest, text))
        locator, version, query = _split(scheme, rest)
        if version == "" or query == "":
            raise InvalidIDError(
                f"{text!r} is not an environment ID: nothing follows {'?' if query == '' else '@'!r}", GRAMMAR
            )
        return cls(scheme, cls._filled(locator, text), version or "", _parameters(query or "", text))

    @staticmethod
    def _filled(locator: str, text: str) -> str:
        if not locator or "://" in locator:
            raise InvalidIDError(f"{text!r} is not an environment ID: no name in it", GRAMMAR)
        return locator

    @property
    def name(self) -> str:
        """The ID without scheme and parameters."""
        return f"{self.locator}@{self.version}" if self.version else self.locator

    def __str__(self) -> str:
        from urllib.parse import quote

        scheme = f"{self.scheme}://" if self.scheme else ""
        pairs = "&".join(f"{quote(key)}={quote(_text(value), safe='')}" for key, value in self.parameters.items())
        return f"{scheme}{self.name}{'?' + pairs if pairs else ''}"


def split_file(locator: str) -> tuple[str, str]:
    """`path/to/file.py:Class` is (`path/to/file.py`, `Class`); the class is empty if it is not named."""
    path, colon, attribute = locator.rpartition(":")
    return (path, attribute) if colon and path.endswith(".py") else (locator, "")


def split_number(name: str) -> tuple[str, int | None]:
    """`counter-v2` is (`counter`, 2); a name without a number is (name, None)."""
    match = _NUMBERED.fullmatch(name)
    return (match["base"], int(match["number"])) if match else (name, None)


def image_name(name: str) -> str:
    """A name that Docker takes for an image, with the tag `latest`."""
    return f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-') or 'env'}:latest"


def _implied_scheme(text: str) -> str:
    """Of an ID without one: `file` for a path, `pkg` for `module:Class`, empty for a bare name."""
    locator = text.partition("?")[0].partition("@")[0]
    if text in (".", "..") or text.startswith(_FOLDERS) or _FILE.fullmatch(locator):
        return "file"
    return "pkg" if _IMPORT.fullmatch(locator) else ""


def _split(scheme: str, text: str) -> tuple[str, str | None, str | None]:
    """Locator, version and query. A path may contain `@` and `?`."""
    if scheme == "file" and (file := _FILE.fullmatch(text)):
        return file["locator"], file["version"], file["query"]
    text, question, query = text.partition("?")
    locator, at, version = text.partition("@")
    return locator, version if at else None, query if question else None


def _parameters(query: str, text: str) -> dict[str, Any]:
    from urllib.parse import parse_qsl  # few IDs have parameters

    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise InvalidIDError(f"{text!r} is not an environment ID: {query!r} is not key=value", GRAMMAR) from None
    parameters: dict[str, Any] = {}
    for key, value in pairs:
        if not key or key in parameters:
            raise InvalidIDError(f"{text!r} is not an environment ID: {key!r} is empty or given twice", GRAMMAR)
        parameters[key] = parse_value(value)
    return parameters


def parse_value(text: str) -> Any:
    """JSON where it is JSON, text otherwise."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(value: Any) -> str:
    plain = isinstance(value, str) and parse_value(value) == value
    return str(value) if plain else json.dumps(value)

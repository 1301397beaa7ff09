"""Configuration of MCP servers: the `mcpServers` format that MCP clients share, or a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from envweave.core.suggest import refuse_unknown
from envweave.errors import UsageError

_HINT = 'use {"name": {"command": "…", "args": […]}} or {"name": {"url": "http://…"}}'
_SHORTEST_SECRET = 6
"""Characters; shorter values are not secrets, and occur in words."""


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """How one server is started or reached. Its repr shows nothing that may be a secret."""

    name: str
    prefix: str = ""
    """Put before the names of its tools."""
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = field(default=None, repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def redacted(self, text: str) -> str:
        """Return the text without values of headers, environment variables and the URL."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> set[str]:
        given = [*self.env.values(), *self.headers.values(), *(_secrets_in(self.url) if self.url else ())]
        words = {word for value in given for word in (value, *value.split())}
        return {word for word in words if len(word) >= _SHORTEST_SECRET}


def _secrets_in(url: str) -> list[str]:
    """Return user, password, values of the query and parts of the path that look like keys; as written, and decoded."""
    parts = urlsplit(url)
    values = [pair.split("=", 1)[-1] for pair in parts.query.split("&")]
    keys = [part for part in parts.path.split("/") if len(part) >= 16 and any(map(str.isdigit, part))]
    written = [parts.username or "", parts.password or "", *values, *keys]
    return [*written, *map(unquote, written), *map(unquote_plus, values)]


_IGNORED = ("type", "transport", "description", "disabled")
_KEYS = {"url": ("url", "headers", "prefix"), "command": ("command", "args", "env", "cwd", "prefix")}
_TYPES = {
    "url": ("", "http", "streamable-http", "streamable_http", "streamablehttp"),
    "command": ("", "stdio"),
}


def read_servers(servers: Any) -> list[McpServer]:
    """Read a URL, a configuration, a mapping of configurations by name, or a list of any of these.

    Raises `UsageError`, without values that may be secrets.
    """
    named = _by_name(servers)
    if not named:
        raise UsageError("there are no MCP servers", "name one; CodeAct without `servers` has tools for files")
    found: list[McpServer] = []
    for name, one in named:
        one = {"url": one} if isinstance(one, str) else one
        if not isinstance(one, Mapping):
            raise UsageError(f"the MCP server {name or len(found) + 1} is {_shown(one)}", _HINT)
        if one.get("disabled") is not True:
            found.append(_read(name or _default_name(one, len(found) + 1), one))
    names = [server.name for server in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two MCP servers are called {twice!r}", "give them as a mapping, by name")
    return found


def _by_name(servers: Any) -> list[tuple[str, Any]]:
    if isinstance(servers, str):
        return [("", servers)]
    if isinstance(servers, Mapping):
        if isinstance(servers.get("mcpServers"), Mapping):
            return _by_name(servers["mcpServers"])
        if isinstance(servers.get("command"), str) or isinstance(servers.get("url"), str):
            return [("", servers)]
        return [(str(name), one) for name, one in servers.items()]
    if isinstance(servers, list | tuple):
        return [pair for one in servers for pair in _by_name(one)]
    raise UsageError(f"`servers` is {_shown(servers)}", _HINT)


def _shown(value: Any) -> str:
    """Return a value that cannot be a secret, else its type."""
    return repr(value) if value is None or isinstance(value, int | float) else f"of the type {type(value).__name__}"


def _default_name(one: Mapping[str, Any], number: int) -> str:
    if isinstance(one.get("url"), str):
        return urlsplit(one["url"]).hostname or f"server{number}"
    return PurePath(str(one.get("command", ""))).stem or f"server{number}"


def _read(name: str, one: Mapping[str, Any]) -> McpServer:
    from envweave.core.schema import adapter, explain  # pydantic

    subject = f"the MCP server {name!r}"
    if ("url" in one) == ("command" in one):
        raise UsageError(f"{subject} needs a `command` or a `url`, one of them", _HINT)
    kind = "url" if "url" in one else "command"
    refuse_unknown(map(str, one), [*_KEYS[kind], *_IGNORED], f"{subject} has no", "keys")
    asked = str(one.get("type", one.get("transport", ""))).lower()
    if asked not in _TYPES[kind]:
        raise UsageError(f"{subject} is of the type {asked!r}", "types: stdio, with a command; http, with a url")
    given = {key: _plain(value) for key, value in one.items() if key in _KEYS[kind]}
    try:
        server: McpServer = adapter(McpServer).validate_python({"name": name, **given})
    except ValueError as error:
        raise UsageError(f"{subject}: {explain(error, list(given))}", _HINT) from None
    if kind == "url" and urlsplit(server.url).scheme not in ("http", "https"):
        raise UsageError(f"the URL of {subject} is neither http nor https", _HINT)
    return server


def _plain(value: Any) -> Any:
    """Return paths as text."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, Mapping) else value

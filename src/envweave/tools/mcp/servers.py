"""Which MCP servers are meant: the `mcpServers` of the configuration that MCP clients share, or less than that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from envweave.core.suggest import nearest
from envweave.errors import UsageError

_STDIO = {"command": str, "args": list, "env": dict, "cwd": str}
_HTTP = {"url": str, "headers": dict}
_BOTH = {"prefix": str, "type": str, "transport": str, "description": str, "disabled": bool}
_KINDS = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamable_http": "url",
    "streamablehttp": "url",
}


@dataclass(frozen=True, kw_only=True)
class Server:
    """How one server is reached. Its repr has nothing that may be a secret."""

    name: str
    prefix: str = ""
    """Stands before the names of its tools."""
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = field(default=None, repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def censored(self, text: str) -> str:
        """The text without values that were given as headers, environment variables or in the URL."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> set[str]:
        given = [*self.env.values(), *self.headers.values()]
        if self.url:
            given += _secrets_in(self.url)
        words = {word for value in given for word in (value, *value.split())}
        return {word for word in words if len(word) >= 6}  # shorter ones are no secrets, and are parts of words


def _secrets_in(url: str) -> list[str]:
    """User, password, what the query says, and parts of the path that look like keys; as written, and decoded."""
    parts = urlsplit(url)
    user = [parts.username or "", parts.password or ""]
    asked = [pair.split("=", 1)[-1] for pair in parts.query.split("&")]
    keys = [part for part in parts.path.split("/") if len(part) >= 16 and any(map(str.isdigit, part))]
    written = [*user, *asked, *keys]
    return [*written, *map(unquote, written), *map(unquote_plus, asked)]


def read_servers(servers: Any) -> list[Server]:
    """The servers that are meant by a URL, a configuration, a mapping of them by name, or a list of any of these.

    Raises `UsageError` that says what is wrong, but not with which value, where it may be a secret.
    """
    named = _named(servers)
    if not named:
        raise UsageError("there are no MCP servers", "name one; CodeAct without `servers` has tools for files")
    found: list[Server] = []
    for name, one in named:
        if isinstance(one, str):
            one = {"url": one}
        if not isinstance(one, Mapping):
            raise UsageError(f"the MCP server {name or len(found) + 1} is {_shown(one)}", _HINT)
        if one.get("disabled") is not True:
            found.append(_read(name or _own_name(one, len(found) + 1), one))
    names = [server.name for server in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two MCP servers are called {twice!r}", "give them as a mapping, by name")
    return found


_HINT = 'use {"name": {"command": "…", "args": […]}} or {"name": {"url": "http://…"}}'


def _named(servers: Any) -> list[tuple[str, Any]]:
    if isinstance(servers, str):
        return [("", servers)]
    if isinstance(servers, Mapping):
        if isinstance(servers.get("mcpServers"), Mapping):
            return _named(servers["mcpServers"])
        if isinstance(servers.get("command"), str) or isinstance(servers.get("url"), str):
            return [("", servers)]
        return [(str(name), one) for name, one in servers.items()]
    if isinstance(servers, list | tuple):
        return [pair for one in servers for pair in _named(one)]
    raise UsageError(f"`servers` is {_shown(servers)}", _HINT)


def _shown(value: Any) -> str:
    """What can be no secret, or else its type."""
    harmless = value is None or isinstance(value, int | float)
    return repr(value) if harmless else f"of the type {type(value).__name__}"


def _own_name(one: Mapping[str, Any], number: int) -> str:
    if isinstance(one.get("url"), str):
        return urlsplit(one["url"]).hostname or f"server{number}"
    return PurePath(str(one.get("command", ""))).stem or f"server{number}"


def _read(name: str, one: Mapping[str, Any]) -> Server:
    kind = "url" if "url" in one else "command"
    if ("url" in one) == ("command" in one):
        raise UsageError(f"the MCP server {name!r} needs a `command` or a `url`, one of them", _HINT)
    known = {**(_HTTP if kind == "url" else _STDIO), **_BOTH}
    for key, value in one.items():
        if key not in known:
            near = nearest(str(key), known)
            raise UsageError(f"the MCP server {name!r} has no {key!r}", f"did you mean {near!r}?" if near else _HINT)
        if not isinstance(value, known[key]) and not (key == "cwd" and isinstance(value, PurePath)):
            raise UsageError(f"`{key}` of the MCP server {name!r} is {_shown(value)}", _HINT)
    asked = one.get("type", one.get("transport", "")).lower()
    if asked and _KINDS.get(asked) != kind:
        raise UsageError(f"the MCP server {name!r} is of the type {asked!r}", "types: stdio, with a command; http")
    if kind == "url" and urlsplit(one["url"]).scheme not in ("http", "https"):
        raise UsageError(f"the URL of the MCP server {name!r} is neither http nor https", _HINT)
    return Server(
        name=name,
        prefix=one.get("prefix", ""),
        command=one.get("command", ""),
        args=tuple(_texts(name, "args", one.get("args", []))),
        env=dict(zip(one.get("env", {}), _texts(name, "env", list(one.get("env", {}).values())), strict=True)),
        cwd=str(one["cwd"]) if "cwd" in one else None,
        url=one.get("url", ""),
        headers=dict(
            zip(one.get("headers", {}), _texts(name, "headers", list(one.get("headers", {}).values())), strict=True)
        ),
    )


def _texts(name: str, what: str, values: list[Any]) -> list[str]:
    if not all(isinstance(value, str | PurePath) for value in values):
        raise UsageError(f"`{what}` of the MCP server {name!r} are not all text", "write numbers as '1'")
    return [str(value) for value in values]

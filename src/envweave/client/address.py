"""Where a server is: one place, whatever form its URL was typed in."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from envweave.errors import UsageError

_SECURE = {"http": False, "ws": False, "https": True, "wss": True}


@dataclass(frozen=True, slots=True)
class Address:
    """The same server for plain HTTP and for WebSockets."""

    http: str
    """Without a slash at the end, e.g. `http://localhost:8000`."""
    ws: str
    """The WebSocket's own address, e.g. `ws://localhost:8000/ws`."""
    name: str
    """Host and port, for messages and instance IDs."""
    socket: str = ""
    """The path of a Unix socket that leads there too, and faster."""

    @classmethod
    def later(cls, name: str) -> Address:
        """Of a server that is yet to be started."""
        return cls("", "", name)

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read `http(s)://` or `ws(s)://`, with or without a slash or `/ws` at the end."""
        parts = urlsplit(url.strip()) if isinstance(url, str) else None
        try:
            known = parts is not None and parts.scheme in _SECURE and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is no number
            known = False
        if parts is None or not known:
            raise UsageError(f"{url!r} is not the address of a server", "e.g. http://localhost:8000")
        path = parts.path.rstrip("/").removesuffix("/ws").rstrip("/")
        secure = _SECURE[parts.scheme]
        http = urlunsplit(("https" if secure else "http", parts.netloc, path, "", ""))
        ws = urlunsplit(("wss" if secure else "ws", parts.netloc, f"{path}/ws", parts.query, ""))
        return cls(http, ws, parts.netloc.rpartition("@")[2] + path)

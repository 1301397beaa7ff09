"""Where the Docker daemon is, before anybody talks to it."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

DEFAULT = "unix:///var/run/docker.sock"
_HERE = ("", "localhost", "127.0.0.1", "::1")


def address(host: str | None) -> str:
    """The daemon that is named, or the one of `DOCKER_HOST`, or the usual one."""
    return host or os.environ.get("DOCKER_HOST") or DEFAULT


def machine(host: str | None) -> str:
    """The name of the machine that ports are published on, as seen from here."""
    parts = urlsplit(address(host))
    name = parts.hostname if parts.scheme in ("tcp", "http", "https", "ssh") else ""
    return name if name and name not in _HERE else "127.0.0.1"


def is_far(host: str | None) -> bool:
    """The daemon is on another machine."""
    return machine(host) != "127.0.0.1"

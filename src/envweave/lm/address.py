"""Where an endpoint is."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from envweave.errors import UsageError


def checked_url(base_url: str, *, private: bool = False) -> str:
    """The URL without its last slash. Raises `UsageError` for one that holds a secret or is none.

    With `private`, only TLS or this very machine will do.
    """
    try:
        parts = urlsplit(base_url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except (ValueError, TypeError, AttributeError):
        good = False
    if not good or not base_url.isprintable() or " " in base_url:
        raise UsageError("the base_url is not an http or https URL", "such as http://127.0.0.1:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"the base_url of {parts.hostname} has a password, query or fragment", "pass api_key=… instead"
        )
    if private and parts.scheme != "https" and not is_loopback(base_url):
        raise UsageError(f"a Hugging Face token is not sent to {parts.hostname} over plain http", "use https")
    return base_url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether the URL names this machine by a loopback address or as `localhost`."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

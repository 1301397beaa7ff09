"""The connection to the Docker daemon, for providers, images and sandboxes. No other module imports the Docker SDK."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from envweave.errors import ProviderError, ProviderUnreachableError, UnavailableError

try:
    import docker
    from docker.errors import APIError, DockerException, ImageNotFound
except ModuleNotFoundError:
    raise UnavailableError("'docker' is not installed", "pip install 'envweave[docker]'") from None

__all__ = ["FAILURES", "ImageNotFound"]

FAILURES = (DockerException, OSError)
"""What calls of the SDK raise: its own errors, and those of the connection."""
TIMEOUT = 120.0
"""Seconds for one answer of the daemon."""
_DEFAULT_URL = "unix:///var/run/docker.sock"
_LOOPBACK = "127.0.0.1"
_SIGKILL_CODE = 137
_OOM_CHECKS, _OOM_PAUSE = 20, 0.1


def daemon_url(host: str | None = None) -> str:
    """Return `host`, or `DOCKER_HOST`, or the default socket."""
    return host or os.environ.get("DOCKER_HOST") or _DEFAULT_URL


def published_host(host: str | None = None) -> str:
    """Return the name of the machine that the daemon publishes ports on."""
    url = urlsplit(daemon_url(host))
    name = url.hostname if url.scheme in ("tcp", "http", "https", "ssh") else None
    return _LOOPBACK if name in (None, "localhost", "::1") else str(name)


def is_remote(host: str | None = None) -> bool:
    """Whether the daemon runs on another machine."""
    return published_host(host) != _LOOPBACK


def connect(host: str | None = None, *, timeout: float = TIMEOUT) -> Any:
    """Return a client of a daemon that has answered; the caller closes it. Raises `ProviderUnreachableError`."""
    url = daemon_url(host)
    try:
        if url.startswith("unix://"):  # the SDK leaves its socket open if this fails
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(url.removeprefix("unix://"))
        return docker.from_env(environment={**os.environ, "DOCKER_HOST": url}, version="auto", timeout=timeout)
    except FAILURES as error:
        hint = "is Docker installed and started, and may you use it? DOCKER_HOST names another daemon"
        raise ProviderUnreachableError(f"no Docker daemon at {url}: {reason(error)}", hint) from error


@contextmanager
def connected(host: str | None = None) -> Iterator[Any]:
    """A client for the duration of a block. Raises `ProviderUnreachableError`."""
    with closing(connect(host)) as client:
        yield client


def reason(error: Exception) -> str:
    """Return the message of the daemon, or of the error, on one line."""
    return " ".join(str(getattr(error, "explanation", None) or error).split())


def remove_container(client: Any, name: str) -> None:
    """Kill and remove a container, if it exists. Raises `ProviderError`."""
    try:
        client.api.remove_container(name, v=True, force=True)
    except FAILURES as error:
        if not is_gone(error):
            raise ProviderError(f"cannot remove the container {name}: {reason(error)}") from error


def is_gone(error: Exception) -> bool:
    """Whether the daemon answered that a container does not exist (404) or is already being removed (409)."""
    return isinstance(error, APIError) and error.status_code in (404, 409)


def settled_state(container: Any) -> dict[str, Any]:
    """Return the state of a container. The daemon learns a moment after a kill that the cause was memory."""
    for _ in range(_OOM_CHECKS):
        state: dict[str, Any] = container.attrs["State"]
        limited = container.attrs["HostConfig"].get("Memory")
        if not limited or state.get("Running") or state.get("OOMKilled") or state.get("ExitCode") != _SIGKILL_CODE:
            break
        time.sleep(_OOM_PAUSE)
        container.reload()
    return state


def describe_end(state: dict[str, Any]) -> tuple[str, str]:
    """Return why a container does not run, as the end of a sentence, and a hint."""
    code, error = state.get("ExitCode"), state.get("Error")
    if state.get("Paused"):
        return "is paused", "docker unpause resumes it"
    if state.get("OOMKilled"):
        return f"ran out of memory and was killed (exit code {code})", "memory=… sets a higher limit"
    if state.get("Status") == "created":
        return f"did not start: {error or 'no reason given'}", ""
    if code == _SIGKILL_CODE:
        return f"was killed (exit code {code})", ""
    return f"has ended with exit code {code}" + (f" ({error})" if error else ""), ""

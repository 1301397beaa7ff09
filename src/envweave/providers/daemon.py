"""A client of the Docker daemon. With `sandbox.docker`, the door to the Docker SDK."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from envweave.errors import ProviderUnreachableError, UnavailableError
from envweave.providers.engine import address

try:
    import docker
    from docker.errors import APIError, DockerException, ImageNotFound, NotFound
except ModuleNotFoundError:
    raise UnavailableError("'docker' is not installed", "pip install 'envweave[docker]'") from None

__all__ = ["FAILURES", "APIError", "ImageNotFound", "NotFound", "connected", "reason"]

FAILURES = (DockerException, OSError)
"""The SDK's own, and those of the connection to the daemon."""
_PATIENCE = 120
"""Seconds for one answer of the daemon: a busy one takes its time."""


@contextmanager
def connected(host: str | None = None) -> Iterator[Any]:
    """A client of the daemon, which has answered. Raises `ProviderUnreachableError` if none does."""
    url = address(host)
    try:
        if url.startswith("unix://"):  # the SDK would leave a socket open where nobody listens
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(url.removeprefix("unix://"))
        environment = {**os.environ, "DOCKER_HOST": url}
        client = docker.from_env(environment=environment, version="auto", timeout=_PATIENCE)
    except FAILURES as error:
        hint = "is Docker installed and started, and may you use it? DOCKER_HOST names another daemon"
        raise ProviderUnreachableError(f"no Docker daemon at {url}: {reason(error)}", hint) from error
    try:
        yield client
    finally:
        client.close()


def reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "explanation", None) or error).split())

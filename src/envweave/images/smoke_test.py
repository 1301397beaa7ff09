"""Start an image, wait until it is healthy, and reset its environment once."""

from __future__ import annotations

import time

from envweave.core.lookup import load
from envweave.errors import EnvWeaveError, ProviderError
from envweave.providers.base import READY_TIMEOUT
from envweave.providers.docker import LocalDockerProvider
from envweave.registry.make import connect


def require_client() -> None:
    """Raise `UnavailableError` if the packages that `smoke_test` needs are missing. Call it before a long build."""
    for target in ("envweave.wire.codec:encode", "envweave.client.websocket:open_websocket"):
        load(target, extra="client")


def smoke_test(tag: str, *, timeout: float = READY_TIMEOUT) -> float:
    """Return the seconds from the start of the container until it was healthy, and remove the container.

    Raises `ProviderError`, with the last lines of the log, if the server does not become healthy or `reset` fails.
    """
    with LocalDockerProvider(tag, pull="never") as provider:
        began = time.monotonic()
        url = provider.start()
        provider.wait_for_ready(timeout)
        seconds = time.monotonic() - began
        try:
            with connect(url) as env:
                env.reset()
        except EnvWeaveError as error:
            message = f"{tag} is healthy, but reset failed: {error.message}{provider.formatted_log()}"
            raise ProviderError(message, error.hint) from error
    return seconds

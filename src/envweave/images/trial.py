"""Is an image any good? Start it, wait until it is healthy, and begin an episode."""

from __future__ import annotations

import time

from envweave.core.lookup import load
from envweave.errors import EnvWeaveError, ProviderError
from envweave.providers.base import READY_TIMEOUT
from envweave.providers.docker import LocalDockerProvider
from envweave.registry.make import connect


def need_client() -> None:
    """Raise `UnavailableError` if an image could not be tried from here: that is better known before it is built."""
    for target in ("envweave.wire.codec:encode", "envweave.client.dial:dial"):
        load(target, extra="client")


def try_image(tag: str, *, timeout: float = READY_TIMEOUT) -> float:
    """The seconds from its start until it was healthy. Raises `ProviderError`, with the last lines of its log.

    The container is gone afterwards.
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
            message = f"{tag} is healthy, but no episode begins: {error.message}{provider.last_words()}"
            raise ProviderError(message, error.hint) from error
    return seconds

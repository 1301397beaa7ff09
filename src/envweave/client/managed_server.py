"""A server that is started for its clients: with the first connection, again when it is gone, stopped with the last."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from envweave.client.address import Address
from envweave.core.threads import run_in_thread
from envweave.errors import ClosedError, ProviderError, ProviderUnreachableError
from envweave.providers.base import Provider

log = logging.getLogger(__name__)

_STARTS = threading.BoundedSemaphore(16)
"""Servers that are started at the same time; a container daemon that gets more requests stops answering."""


class ManagedServer:
    """One provider and the clients that need its server. What blocks runs on a thread."""

    def __init__(self, provider: Provider, *, start: Callable[[], str] | None = None) -> None:
        """`start` is called in place of the provider's own, with arguments that only the caller knows."""
        self.provider = provider
        self._start = start or provider.start
        self._lock = threading.Lock()
        """Held while it starts or stops."""
        self._counting = threading.Lock()
        self._users = 0
        self._ended = False
        self._starting = False

    def acquire(self) -> None:
        """Count one more user of the server."""
        with self._counting:
            self._users += 1

    async def release(self) -> None:
        """Count one user less. The last one stops the server, even if it is just being started."""
        with self._counting:
            self._users -= 1
            if self._users > 0:
                return
            self._ended = self.provider.cancelled = True
        await run_in_thread(self._stop)

    def _stop(self) -> None:
        with self._lock:
            self.provider.stop()
            self.provider.cancelled = False

    async def ensure_running(self, index: int) -> Address:
        """The address of a running server: it is started if necessary, and again if it is gone.

        Raises `ProviderError`; if the daemon or API server does not answer, what was started is left as it is.
        """
        return await run_in_thread(partial(self._running_address, index))  # type: ignore[no-any-return]

    def _running_address(self, index: int) -> Address:
        urls = self._running_urls()
        url = urls[index % len(urls)]
        return replace(Address.parse(url), socket=self.provider.shortcut(url))

    def _running_urls(self) -> tuple[str, ...]:
        with self._lock:
            if self.provider.url and not self._ended:
                try:
                    self.provider.check()
                    return self.provider.urls
                except ProviderUnreachableError:
                    raise
                except ProviderError as error:
                    log.warning("starting the server again: %s", error.message)
                self.provider.stop()
            with _STARTS:
                return self._started_urls()

    def _started_urls(self) -> tuple[str, ...]:
        if self._ended:
            raise ClosedError("the server was stopped with its last client", "make a new one")
        self._starting = True
        try:
            self._start()
            self.provider.wait_for_ready(self.provider.ready_timeout)
        except BaseException:
            self.provider.stop()
            raise
        finally:
            self._starting = False
        return self.provider.urls

    async def check_alive(self, address: Address) -> str:
        """Raise `ProviderError`, with the cause, if the server at this address is gone.

        Returns the reason if that cannot be told now, else an empty string.
        """
        return await run_in_thread(partial(self._check_alive, address.http))  # type: ignore[no-any-return]

    def _check_alive(self, url: str) -> str:
        unreachable = ""
        try:
            if not self._starting:
                self.provider.check()
        except ProviderUnreachableError as error:
            unreachable = error.message
        if self._starting or url not in self.provider.urls:
            raise ProviderError("the server was replaced by another")
        return unreachable

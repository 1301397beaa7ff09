"""Where a server lives that was started for its clients: looked after while they play, ended with the last of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from envweave.client.address import Address
from envweave.errors import ClosedError, ProviderError
from envweave.providers.base import READY_TIMEOUT, Provider

log = logging.getLogger(__name__)


class Home:
    """One provider, which is asked to start when somebody wants to connect, and again when its server is gone."""

    def __init__(
        self, provider: Provider, *, begin: Callable[[], str] | None = None, ready_timeout: float = READY_TIMEOUT
    ) -> None:
        self.provider = provider
        self._begin = begin or provider.start
        self._ready_timeout = ready_timeout
        self._lock = threading.Lock()
        """Held while it starts or stops."""
        self._counting = threading.Lock()
        self._holders = 0
        self._ended = False
        self._settling = False

    def hold(self) -> None:
        """Count one more who needs the server."""
        with self._counting:
            self._holders += 1

    def release(self) -> None:
        """Count one less; with the last of them the server ends, for good, even if it is just being started."""
        with self._counting:
            self._holders -= 1
            if self._holders > 0:
                return
            self._ended, self.provider.wanted = True, False
        with self._lock:
            self.provider.stop()
            self.provider.wanted = True

    def settle(self) -> tuple[str, ...]:
        """The URLs of servers that run: started now, or started again if they are gone. Raises `ProviderError`."""
        with self._lock:
            if self._ended:
                raise ClosedError("the server was stopped with its last client", "make a new one")
            if self.provider.url:
                try:
                    self.provider.check()
                    return self.provider.urls
                except ProviderError as error:
                    log.warning("starting again: %s", error.message)
                self.provider.stop()
            self._settling = True
            try:
                self._begin()
                self.provider.wait_for_ready(self._ready_timeout)
            except BaseException:
                self.provider.stop()
                raise
            finally:
                self._settling = False
            return self.provider.urls

    def look(self, url: str) -> None:
        """Raise `ProviderError`, with the cause, if the server that was at `url` is gone."""
        if not self._settling:
            self.provider.check()
        if self._settling or url not in self.provider.urls:
            raise ProviderError("the server was replaced by another")


@dataclass(frozen=True, slots=True)
class Place:
    """One of the servers of a home. Its calls wait in a thread, so that no loop does."""

    home: Home
    number: int = 0

    async def settle(self) -> Address:
        return await asyncio.to_thread(self._settled)

    def _settled(self) -> Address:
        urls = self.home.settle()
        url = urls[self.number % len(urls)]
        return replace(Address.parse(url), socket=self.home.provider.shortcut(url))

    async def look(self, address: Address) -> None:
        await asyncio.to_thread(self.home.look, address.http)

    async def release(self) -> None:
        await asyncio.to_thread(self.home.release)

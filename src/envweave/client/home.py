"""Where a server lives that was started for its clients: looked after while they play, ended with the last of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from envweave.client.address import Address
from envweave.errors import ClosedError, ProviderError, ProviderUnreachableError
from envweave.providers.base import Provider

log = logging.getLogger(__name__)

T = TypeVar("T")

_STARTS = threading.BoundedSemaphore(16)
"""How many servers are started at the same time: a daemon that is asked for too much answers nobody."""


class Home:
    """One provider, which is asked to start when somebody wants to connect, and again when its server is gone."""

    def __init__(self, provider: Provider, *, begin: Callable[[], str] | None = None) -> None:
        self.provider = provider
        self._begin = begin or provider.start
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

    def let_go(self) -> bool:
        """Count one less. True for the last: then nothing starts any more, and `end` is due."""
        with self._counting:
            self._holders -= 1
            if self._holders > 0:
                return False
            self._ended, self.provider.wanted = True, False
            return True

    def end(self) -> None:
        """Stop the server, even if it is just being started. Blocks."""
        with self._lock:
            self.provider.stop()
            self.provider.wanted = True

    def settle(self) -> tuple[str, ...]:
        """The URLs of servers that run: started now, or started again if they are gone. Blocks.

        Raises `ProviderError`; if it is only that nobody can be asked now, what was started is left as it is.
        """
        with self._lock:
            if self.provider.url and not self._ended:
                try:
                    self.provider.check()
                    return self.provider.urls
                except ProviderUnreachableError:
                    raise
                except ProviderError as error:
                    log.warning("starting again: %s", error.message)
                self.provider.stop()
            with _STARTS:
                return self._started()

    def _started(self) -> tuple[str, ...]:
        if self._ended:
            raise ClosedError("the server was stopped with its last client", "make a new one")
        self._settling = True
        try:
            self._begin()
            self.provider.wait_for_ready(self.provider.ready_timeout)
        except BaseException:
            self.provider.stop()
            raise
        finally:
            self._settling = False
        return self.provider.urls

    def look(self, url: str) -> str:
        """Raise `ProviderError`, with the cause, if the server that was at `url` is gone. Blocks.

        Gives the reason if nobody can tell, as those are away who could.
        """
        away = ""
        try:
            if not self._settling:
                self.provider.check()
        except ProviderUnreachableError as error:
            away = error.message
        if self._settling or url not in self.provider.urls:
            raise ProviderError("the server was replaced by another")
        return away


@dataclass(frozen=True, slots=True)
class Place:
    """One of the servers of a home, for event loops: what blocks does so in a thread."""

    home: Home
    number: int = 0

    async def settle(self) -> Address:
        return await _aside(self._settled)

    def _settled(self) -> Address:
        urls = self.home.settle()
        url = urls[self.number % len(urls)]
        return replace(Address.parse(url), socket=self.home.provider.shortcut(url))

    async def look(self, address: Address) -> str:
        return await _aside(lambda: self.home.look(address.http))

    async def release(self) -> None:
        """Not needed here any more; the last one waits for the end."""
        if self.home.let_go():
            await _aside(self.home.end)


async def _aside(work: Callable[[], T]) -> T:
    """Await what blocks, in a thread of its own: those that a loop lends are few, and the process waits for them."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def give(settle: Callable[[Any], None], answer: Any) -> None:
        if not done.done():  # nobody waits any more
            settle(answer)

    def run() -> None:
        try:
            given: tuple[Callable[[Any], None], Any] = (done.set_result, work())
        except BaseException as error:
            given = (done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(give, *given)

    try:
        threading.Thread(target=run, name="envweave-home", daemon=True).start()
    except RuntimeError:  # the interpreter is about to end
        run()
    return await done

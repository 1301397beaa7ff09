"""One question to a server, and its answer once that is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from envweave.errors import BusyError, EnvWeaveError, WaitTimeoutError


class Call:
    """Outlives whoever waits for it: a wait that times out or is cancelled loses nothing, wait again."""

    __slots__ = ("_data", "_error", "_waiter", "answered", "body", "companions", "kind", "number", "repeated", "then")

    def __init__(self, kind: str, body: bytes = b"") -> None:
        self.kind = kind
        self.body = body
        """The JSON of its `data`; empty if it has none."""
        self.number = 0
        """Given by the session it is sent on."""
        self.repeated = False
        """The server did not understand it, and it was sent once more."""
        self.companions: Sequence[tuple[Any, Call]] = ()
        """The sessions and calls of its batch, this one included: sent together, and together again if need be."""
        self.then: Callable[[Call], None] | None = None
        """Called with the answer, for callers that do not wait."""
        self.answered = False
        self._data: Any = None
        self._error: EnvWeaveError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def awaited(self) -> bool:
        return self._waiter is not None or self.then is not None

    def answer(self, data: Any) -> None:
        self._data = data
        self._wake()

    def fail(self, error: EnvWeaveError) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        self.answered = True
        waiter, then = self._waiter, self.then
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if then is not None:
            then(self)

    async def wait(self, timeout: float | None) -> None:
        """Return when the answer is there. Raises `WaitTimeoutError`."""
        if self.answered:
            return
        if self.awaited:
            raise BusyError(f"somebody waits for this {self.kind} already", "one call at a time on one environment")
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, _expire, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        if not self.answered:
            raise self.late(timeout)

    def late(self, timeout: float | None) -> WaitTimeoutError:
        return WaitTimeoutError(
            f"no answer to {self.kind} within {timeout:g} s",
            "it is not lost: env.last() waits for it again; message_timeout_s=… gives it more time",
        )

    def result(self) -> Any:
        """The `data` of the answer; an error is raised."""
        if self._error is not None:
            raise self._error
        return self._data


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

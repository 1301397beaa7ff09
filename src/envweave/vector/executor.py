"""Who runs the calls of a vector. One executor serves many slots; each file beside this one has one kind."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from inspect import iscoroutine
from typing import Any, ClassVar, TypeAlias

from envweave.core.backend import Backend
from envweave.errors import EnvWeaveError, describe
from envweave.vector.slot import Slot

log = logging.getLogger(__name__)

Done: TypeAlias = Callable[[Any, BaseException | None], None]
"""Receives the reply, or None and the exception; may be called on any thread, exactly once."""


class Executor(ABC):
    """Runs calls on the backends of its slots. All methods are for the thread that drives the vector."""

    inline: ClassVar[bool] = False
    """`submit` runs the call at once, so there is never anything to wait for."""
    refuses_late: ClassVar[bool] = False
    """An action that `admit` took may still be refused by the environment's own server, and with it its whole batch."""

    @abstractmethod
    def submit(self, slot: Slot, kind: str, data: Any, done: Done) -> None:
        """Run a call on the slot's backend; `open` opens a new backend and replies with it."""

    def flush(self) -> None:
        """Send what was submitted, for an executor that sends calls together."""

    def deadline(self) -> float | None:
        """When `expire` has something to do, by the monotonic clock."""
        return None

    def expire(self) -> None:
        """Give up the calls that take too long; their `done` receives an `EnvError`."""

    def fork(self, slot: Slot) -> Backend:
        """An independent backend at the same point of the slot's episode."""
        backend: Backend = slot.backend.call("fork")
        return backend

    @abstractmethod
    def close(self, slots: Sequence[Slot], timeout: float) -> set[Slot]:
        """Close all backends within `timeout`; return the slots that are stuck in a call."""


class LocalExecutor(Executor):
    """For environments in this process."""

    def open(self, slots: Sequence[Slot]) -> None:
        """Build the environment of each slot, or raise and leave none open."""
        # All environments first, then our own objects: those lie side by side in memory, and stepping through hundreds
        # of them misses the cache less often.
        built: list[Any] = []
        try:
            built.extend(slot.plan.build() for slot in slots)
            for slot, env in zip(slots, built, strict=True):
                slot.attach(slot.plan.open(slot.id, env))
        except BaseException:
            for env in built:
                close_quietly(env)
            raise

    @staticmethod
    def perform(slot: Slot, backend: Backend, kind: str, data: Any) -> Any:
        """Make the call on this thread."""
        if kind == "open":
            return slot.plan.open(slot.id)
        return backend.advance(data) if kind == "advance" else backend.call(kind, data)


def close_backend(backend: Backend) -> None:
    """Close a backend; a failure is only logged."""
    try:
        backend.call("close")
    except EnvWeaveError as error:
        log.warning("%s did not close: %s", backend.id, error.message)


def close_quietly(env: Any) -> None:
    """Close an environment that never became part of a vector."""
    try:
        close = getattr(env, "close", None)
        answer = close() if callable(close) else None
        if iscoroutine(answer):  # it is not awaited here
            answer.close()
    except Exception as error:  # somebody's close may raise anything
        log.warning("an environment did not close: %s", describe(error))

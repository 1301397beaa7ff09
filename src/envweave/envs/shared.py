"""Resources with a `close` that several owners share: closed with the last reference, even if an owner forgets to."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from envweave.errors import ClosedError


class Closable(Protocol):
    """A resource."""

    def close(self) -> Any: ...


T = TypeVar("T", bound=Closable)


@dataclass(eq=False)
class _Counted(Generic[T]):
    """A resource and the number of references to it."""

    LOCK: ClassVar[Any] = threading.RLock()
    BY_KEY: ClassVar[dict[Any, _Counted[Any]]] = {}
    resource: T
    within: Share[Any] | None = None
    key: Any = None
    references: int = 0

    def release(self) -> None:
        with _Counted.LOCK:
            self.references -= 1
            if self.references:
                return
            _Counted.BY_KEY.pop(self.key, None)
        try:
            self.resource.close()
        finally:
            if self.within is not None:
                self.within.release()


class Share(Generic[T]):
    """One owner's reference to a resource. It ends with `release`, or when it is garbage-collected."""

    def __init__(self, counted: _Counted[T]) -> None:
        self.resource, self.within = counted.resource, counted.within
        self._counted = counted
        with _Counted.LOCK:
            counted.references += 1
        self._finalizer = weakref.finalize(self, _RELEASED.put, counted)  # closed by a thread: this may run anywhere
        self._finalizer.atexit = False  # shared resources end with the process
        _start_closing_thread()

    @classmethod
    def new(cls, resource: T, within: Share[Any] | None = None) -> Share[T]:
        """The first reference to a resource, which keeps the one that it is `within` open.

        If that was released, the new resource is closed, and `ClosedError` is raised.
        """
        try:
            return cls(_Counted(resource, None if within is None else within.again()))
        except ClosedError:
            resource.close()
            raise

    @classmethod
    def of(cls, key: Hashable, make: Callable[[], T]) -> Share[T]:
        """A reference to the resource with this key in this process, which is made if there is none.

        Two threads may both make it, without waiting for each other; then one of the two is closed.
        """
        full_key = (os.getpid(), key)
        with _Counted.LOCK:
            if full_key in _Counted.BY_KEY:
                return cls(_Counted.BY_KEY[full_key])
        made = make()
        with _Counted.LOCK:
            share = cls(_Counted.BY_KEY.setdefault(full_key, _Counted(made, key=full_key)))
        if share.resource is not made:
            made.close()
        return share

    def again(self) -> Share[T]:
        """A reference for another owner. Raises `ClosedError` if this one was released."""
        with _Counted.LOCK:
            if not self._finalizer.alive:
                raise ClosedError(f"the {type(self.resource).__name__} was released")
            return Share(self._counted)

    def release(self) -> None:
        """Safe to call twice."""
        if self._finalizer.detach() is not None:
            self._counted.release()


_RELEASED: SimpleQueue[_Counted[Any]] = SimpleQueue()
_CLOSING_IN: list[int] = []
"""The process in which a thread releases what was garbage-collected."""


def _start_closing_thread() -> None:
    with _Counted.LOCK:
        if os.getpid() in _CLOSING_IN:
            return
        _CLOSING_IN[:] = [os.getpid()]
    threading.Thread(target=_close_released, name="envweave-sweeper", daemon=True).start()


def _close_released() -> None:
    while True:
        with suppress(Exception):  # there is no caller to raise it to
            _RELEASED.get().release()


def _replace_lock() -> None:
    """In a forked child, where the thread that may hold the lock does not exist."""
    _Counted.LOCK = threading.RLock()


os.register_at_fork(after_in_child=_replace_lock)

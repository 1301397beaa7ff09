"""Resources with a `close` that several owners share: closed with the last reference, even if an owner forgets to."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from envweave.errors import ClosedError


class Closable(Protocol):
    """A resource."""

    def close(self) -> Any: ...


T = TypeVar("T", bound=Closable)


class Share(Generic[T]):
    """One owner's reference to a resource. It ends with `release`, or when it is garbage-collected."""

    def __init__(self, counted: _Counted[T]) -> None:
        self.resource = counted.resource
        self._counted = counted
        self._finalizer = weakref.finalize(self, _RELEASED.put, counted)  # closed by a thread: this may run anywhere
        self._finalizer.atexit = False  # shared resources end with the process
        _start_closing_thread()

    @classmethod
    def new(cls, resource: T) -> Share[T]:
        """The first reference to a resource."""
        return cls(_Counted(resource))

    @classmethod
    def of(cls, key: Hashable, make: Callable[[], T]) -> Share[T]:
        """A reference to the resource with this key in this process, which is made if there is none.

        Two threads may both make it, without waiting for each other; then one of the two is closed.
        """
        full_key = (os.getpid(), key)
        counted = _Counted.find(full_key)
        if counted is not None:
            return cls(counted)
        resource = make()
        counted = _Counted.find(full_key, resource)
        if counted.resource is not resource:
            resource.close()
        return cls(counted)

    def again(self) -> Share[T]:
        """A reference for another owner. Raises `ClosedError` if this one was released."""
        with _Counted.LOCK:
            if not self._finalizer.alive:
                raise ClosedError(f"the {type(self.resource).__name__} was released")
            self._counted.references += 1
        return Share(self._counted)

    def release(self) -> None:
        """Safe to call twice."""
        if self._finalizer.detach() is not None:
            self._counted.release()


class _Counted(Generic[T]):
    """A resource and the number of references to it."""

    LOCK = threading.RLock()
    BY_KEY: ClassVar[dict[Any, _Counted[Any]]] = {}

    def __init__(self, resource: T, key: Any = None) -> None:
        self.resource = resource
        self.references = 1
        self._key = key

    @classmethod
    def find(cls, key: Any, resource: T | None = None) -> Any:
        """Add a reference to what has this key; if nothing has, register `resource`, or return None without one."""
        with cls.LOCK:
            found = cls.BY_KEY.get(key)
            if found is not None:
                found.references += 1
            elif resource is not None:
                found = cls.BY_KEY[key] = _Counted(resource, key)
            return found

    def release(self) -> None:
        with self.LOCK:
            self.references -= 1
            if self.references:
                return
            self.BY_KEY.pop(self._key, None)
        self.resource.close()


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

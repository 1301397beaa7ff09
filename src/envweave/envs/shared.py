"""Things with a `close` that several hold at once, closed by the last of them, even by one who forgot to."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from envweave.errors import ClosedError


class Closable(Protocol):
    """Whatever has to be closed."""

    def close(self) -> Any: ...


T = TypeVar("T", bound=Closable)


class Share(Generic[T]):
    """One holder's part in a thing, given back once: by `leave`, or when the holder is forgotten."""

    def __init__(self, pot: _Pot[T]) -> None:
        self.thing = pot.thing
        self._pot = pot
        self._finalizer = weakref.finalize(self, _LEFT.put, pot)  # not there and then: it may be amid anything
        self._finalizer.atexit = False  # what is shared here ends with the process
        _sweep_here()

    @classmethod
    def new(cls, thing: T) -> Share[T]:
        """The first part in a thing."""
        return cls(_Pot(thing))

    @classmethod
    def of(cls, key: Hashable, make: Callable[[], T]) -> Share[T]:
        """A part in the thing that is known by a key in this process; it is made if nobody holds it.

        Two threads at once may both make it, and then one is closed again: nobody waits for another one's `make`.
        """
        full = (os.getpid(), key)
        pot = _Pot.joined(full)
        if pot is not None:
            return cls(pot)
        thing = make()
        pot = _Pot.joined(full, thing)
        if pot.thing is not thing:
            thing.close()
        return cls(pot)

    def again(self) -> Share[T]:
        """A part for another holder. Raises `ClosedError` if this one was given back."""
        with _Pot.LOCK:
            if not self._finalizer.alive:
                raise ClosedError(f"the {type(self.thing).__name__} was given back")
            self._pot.holders += 1
        return Share(self._pot)

    def leave(self) -> None:
        """Safe to call twice."""
        if self._finalizer.detach() is not None:
            self._pot.leave()


class _Pot(Generic[T]):
    """The thing, and how many hold it."""

    LOCK = threading.RLock()
    KNOWN: ClassVar[dict[Any, _Pot[Any]]] = {}

    def __init__(self, thing: T, key: Any = None) -> None:
        self.thing = thing
        self.holders = 1
        self._key = key

    @classmethod
    def joined(cls, key: Any, thing: T | None = None) -> Any:
        """The pot of that key with one holder more, or else a new one for the thing, or else None."""
        with cls.LOCK:
            pot = cls.KNOWN.get(key)
            if pot is not None:
                pot.holders += 1
            elif thing is not None:
                pot = cls.KNOWN[key] = _Pot(thing, key)
            return pot

    def leave(self) -> None:
        with self.LOCK:
            self.holders -= 1
            if self.holders:
                return
            self.KNOWN.pop(self._key, None)
        self.thing.close()


_LEFT: SimpleQueue[_Pot[Any]] = SimpleQueue()
_SWEEPERS: list[int] = []
"""The process that has a thread for what was forgotten."""


def _sweep_here() -> None:
    with _Pot.LOCK:
        if os.getpid() in _SWEEPERS:
            return
        _SWEEPERS[:] = [os.getpid()]
    threading.Thread(target=_sweep, name="envweave-sweeper", daemon=True).start()


def _unlock() -> None:
    """In a forked child: the thread that had the lock is not there to give it back."""
    _Pot.LOCK = threading.RLock()


os.register_at_fork(after_in_child=_unlock)


def _sweep() -> None:
    while True:
        try:
            _LEFT.get().leave()
        except Exception:  # noqa: S110  (nobody is left to be told)
            pass

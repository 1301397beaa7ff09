"""Ctrl-C in a blocking conversation: heard where it waits, as a cancellation is on an event loop.

Python raises KeyboardInterrupt between any two instructions, and a message that has been read but not kept would be
lost. So while a conversation is under way SIGINT only leaves a note, but for the moments in which nothing can be torn.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_signal: Any = signal._signal  # type: ignore[attr-defined]  # without the enums, which cost as much as all the rest
_MAIN = threading.main_thread().ident


class CtrlC:
    """The handler, in the place of Python's own. Other handlers are left alone, and so are other threads."""

    def __init__(self) -> None:
        self.installed = False
        self._open = False
        self._noted = False
        self._deaf = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._open and not self._deaf:
            raise KeyboardInterrupt
        self._noted = True

    def install(self) -> bool:
        """False where it is not for us to do."""
        if threading.get_ident() != _MAIN or _signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return False
        _signal.signal(signal.SIGINT, self)
        self.installed = True
        return True

    def remove(self) -> None:
        """Raises what was noted and not heard."""
        self.installed = False
        _signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._noted:
            self._noted = False
            raise KeyboardInterrupt

    def here(self) -> bool:
        """Is it ours to mind, in this thread?"""
        return self.installed and threading.get_ident() == _MAIN

    def __enter__(self) -> None:
        """A wait, in which it may be heard."""
        self._open = True
        if self._noted and not self._deaf:
            self._open = self._noted = False
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        self._open = False

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """Waits in which it is not."""
        self._deaf += 1
        try:
            yield
        finally:
            self._deaf -= 1


CTRL_C = CtrlC()

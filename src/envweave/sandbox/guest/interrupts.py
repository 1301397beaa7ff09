"""SIGINT reaches the code of the session, and never the lines here that speak for it.

A KeyboardInterrupt in the middle of a message would leave half of it unread, and one that comes after the code has
ended would hit the next. So it is raised only while the gate is open.
"""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any


class Interrupts:
    """The gate. Only the main thread receives signals, so only the main thread moves it."""

    def __init__(self) -> None:
        self._open = self._was_open = False
        self._missed = False

    def install(self) -> None:
        signal.signal(signal.SIGINT, self._arrived)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._open:
            raise KeyboardInterrupt
        self._missed = True

    def let_in(self) -> bool:
        """The code begins. Was there an interrupt before it? It may have been meant for the code before."""
        self._open = True
        missed, self._missed = self._missed, False
        return missed

    def shut(self) -> None:
        self._open = False

    def window(self) -> AbstractContextManager[Any]:
        """Within a shield, a line that may be torn. Raises what was missed."""
        return _Window(self) if threading.current_thread() is threading.main_thread() else nullcontext()

    def shield(self) -> AbstractContextManager[Any]:
        """Within the code's time, a few lines that must not be torn."""
        return self if threading.current_thread() is threading.main_thread() else nullcontext()

    def __enter__(self) -> None:
        self._was_open, self._open = self._open, False

    def __exit__(self, *_: object) -> None:
        self._open = self._was_open
        if self._missed and self._open:
            self._missed = False
            raise KeyboardInterrupt


class _Window:
    def __init__(self, gate: Interrupts) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        if self._gate.let_in():
            self._gate.shut()
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        self._gate.shut()

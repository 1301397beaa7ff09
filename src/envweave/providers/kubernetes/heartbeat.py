"""A sign of life from time to time."""

from __future__ import annotations

import threading
from collections.abc import Callable

_AGAIN = 4
"""After one that failed the next comes this many times sooner."""


class Heartbeat:
    """Calls `beat` every so many seconds from a thread of its own, which dies with the process, until `stop`."""

    def __init__(self, beat: Callable[[], None], every: float) -> None:
        self._beat = beat
        self._every = every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="envweave-heartbeat", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause = self._every
        while not self._stopped.wait(pause):
            try:
                self._beat()
                pause = self._every
            except Exception:  # whatever hinders this one need not hinder the next
                pause = self._every / _AGAIN

    def stop(self, timeout: float = 1.0) -> None:
        """One beat that is on its way may still arrive."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

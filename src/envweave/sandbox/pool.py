"""Sessions that are ready before they are asked for."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from envweave.sandbox.seat import Seat
from envweave.sandbox.waiting import BLOCKING, drive

if TYPE_CHECKING:
    from envweave.sandbox.sandbox import Sandbox


class Pool:
    """Keeps some seats warm. A thread makes a new one for each that is taken."""

    def __init__(self, sandbox: Sandbox, size: int) -> None:
        self._sandbox = sandbox
        self._size = size
        self._seats: deque[Seat] = deque()
        self._dead: deque[Seat] = deque()
        """Whose fork-server is gone."""
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start filling it, if nobody does."""
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._fill, name="sandbox pool", daemon=True)
                self._thread.start()

    def take(self) -> Seat | None:
        """A warm seat, or None if there is none just now."""
        with self._changed:
            self._changed.notify_all()
            while self._seats:
                seat = self._seats.popleft()
                if seat.alive():
                    return seat
                self._dead.append(seat)
            return None

    def wait_full(self, timeout: float) -> bool:
        """Until as many are ready as it keeps."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._seats) >= self._size, timeout)

    def _fill(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._seats) < self._size)
                if self._closed:
                    return
            try:
                while self._dead:
                    drive(self._dead.popleft().close(BLOCKING))
                seat: Seat = drive(Seat.take(BLOCKING, self._sandbox.boundary(), self._sandbox.limits))
            except Exception:  # whoever starts a session next meets it, and is told
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, 1.0)
                continue
            with self._changed:  # closed meanwhile, it goes with the others
                self._seats.append(seat)
                self._changed.notify_all()

    def close(self) -> None:
        """End those that are left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        for seats in (self._seats, self._dead):
            while seats:
                drive(seats.popleft().close(BLOCKING))

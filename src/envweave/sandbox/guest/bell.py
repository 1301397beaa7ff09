"""Something to wait for that becomes readable when a child has ended."""

from __future__ import annotations

import signal
import socket
import sys

from envweave.sandbox.guest import linux


class Bell:
    """Rings for SIGCHLD. One for each process, in its main thread."""

    def __init__(self) -> None:
        self._ear, self._clapper = socket.socketpair()
        for end in (self._ear, self._clapper):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if sys.platform == "linux":
            linux.hear_of_ends_only()
        signal.set_wakeup_fd(self._clapper.fileno(), warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._ear.fileno()

    def silence(self) -> None:
        """It has been heard."""
        self._ear.recv(4096)


def disconnect() -> None:
    """In a child, which has no part in its parent's bell."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)

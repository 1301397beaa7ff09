"""A hold on a process, by which it is stopped and let go again."""

from __future__ import annotations

import os
import signal


class Reins:
    """A hold on a worker's process that cannot slip to another one of the same number."""

    def __init__(self, process: int) -> None:
        self._process = process

    @classmethod
    def take(cls, pid: int) -> Reins | None:
        """None where processes cannot be held, or this one is not ours to signal."""
        try:
            return cls(os.pidfd_open(pid))
        except (AttributeError, OSError):
            return None

    def pull(self) -> bool:
        """Stop it, threads and all. False if that is not for us to do."""
        return self._send(signal.SIGSTOP)

    def loosen(self) -> bool:
        return self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> bool:
        try:
            signal.pidfd_send_signal(self._process, number)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return True

    def drop(self) -> None:
        os.close(self._process)

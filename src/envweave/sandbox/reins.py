"""A hold on a session's worker, by which it is stopped and let go, and a look at what it has left behind.

Both through descriptors, which cannot slip to another process of the same number.
"""

from __future__ import annotations

import os
import signal


class Reins:
    """On a worker that has run nothing yet, or nothing since its supervisor spoke for it."""

    def __init__(self, pid: int, supervisor: int | None) -> None:
        """Raises `OSError` where a process cannot be held, or shows no children."""
        self._descriptors: list[int] = []
        try:
            self._process = self._keep(os.pidfd_open(pid))
            self._threads = self._keep(os.open(f"/proc/{pid}/task", os.O_PATH | os.O_CLOEXEC))
            whose = [pid] if supervisor is None else [pid, supervisor]
            self._children = [
                self._keep(os.open(f"/proc/{each}/task/{each}/children", os.O_RDONLY | os.O_CLOEXEC)) for each in whose
            ]
            self._one_thread = os.fstat(self._threads).st_nlink
        except BaseException:
            self.drop()
            raise

    def _keep(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor

    def pull(self) -> bool:
        """Stop it, threads and all. False if that is not for us to do."""
        return self._send(signal.SIGSTOP)

    def loosen(self) -> bool:
        """Let it go on."""
        return self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> bool:
        try:
            signal.pidfd_send_signal(self._process, number)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return True

    def alone(self, workers: int) -> bool:
        """Is it, now that it is stopped, without threads and children, and its supervisor without any but workers?"""
        if len(self._children) < 2:
            return False
        own, family = self._children
        try:
            return (
                not os.pread(own, 4096, 0)
                and os.pread(family, 4096, 0).count(b" ") == workers  # one behind each number
                and os.fstat(self._threads).st_nlink == self._one_thread
            )
        except OSError:
            return False

    def drop(self) -> None:
        """Let go of it for good."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


def take_reins(pid: int, supervisor: int | None) -> Reins | None:
    """None where it is not for us to hold, so that its supervisor has to."""
    try:
        return Reins(pid, supervisor)
    except (AttributeError, OSError):  # not Linux, or not our process
        return None

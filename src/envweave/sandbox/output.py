"""What code prints: the head and the tail are kept, the middle is counted."""

from __future__ import annotations

import os

from envweave.sandbox.guest.frames import CHUNK

_READS = 64
"""At most, before other things are looked at: code that floods us must not hold up its own deadline."""


class Output:
    """One stream of one run."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    @property
    def cut(self) -> bool:
        return self.total > self._limit

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._half :]
            if len(self._tail) > 4 * self._half:
                del self._tail[: -self._half]

    def drain(self, descriptor: int) -> bool:
        """Take what is there. False if the stream has ended."""
        for _ in range(_READS):
            try:
                data = os.read(descriptor, CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.add(data)
        return True

    def text(self) -> str:
        """As text, whatever bytes they were."""
        if not self.cut:
            return self._head.decode("utf-8", "backslashreplace")
        kept = bytes(self._head + self._tail)
        head, tail = bytes(self._head[: self._half]), kept[-self._half :]
        lost = self.total - len(head) - len(tail)
        said = f"\n… [{lost} bytes cut] …\n"
        return head.decode("utf-8", "backslashreplace") + said + tail.decode("utf-8", "backslashreplace")

"""The end of what a process has written to its standard error."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any


class Tail:
    """Reads all of it, on the running loop, and keeps the last few lines."""

    MOST = 4096

    def __init__(self) -> None:
        self._text = b""
        self._reader = -1
        self._loop = asyncio.get_running_loop()

    def writer(self) -> Any:
        """A file for the process to write to."""
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop.add_reader(self._reader, self._read)
        return os.fdopen(writer, "w")

    def _read(self) -> None:
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self._reader, 2**16)
            if not data:
                self._stop()
        self._text = (self._text + data)[-self.MOST :]

    @property
    def text(self) -> str:
        return self._text.decode(errors="replace").strip()

    def _stop(self) -> None:
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1

    def close(self) -> None:
        """Take what is there, and no more."""
        if self._reader >= 0:
            self._read()
        self._stop()

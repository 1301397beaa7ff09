"""The sessions of a sandbox that are not closed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from envweave.errors import ClosedError

if TYPE_CHECKING:
    from envweave.sandbox.core import Core


class Living:
    """Forks and snapshots among them. None is added after the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cores: set[Core] = set()
        self._ended = False

    def add(self, core: Core) -> None:
        with self._lock:
            if self._ended:
                raise ClosedError("the sandbox is closed")
            self._cores.add(core)

    def discard(self, core: Core) -> None:
        with self._lock:
            self._cores.discard(core)

    def __contains__(self, core: Core) -> bool:
        return core in self._cores

    def end(self) -> list[Core]:
        """All that are left to be closed."""
        with self._lock:
            self._ended = True
            return list(self._cores)

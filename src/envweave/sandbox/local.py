"""No boundary: code runs in a process of its own as the caller, with the caller's files and network.

For code you trust, and for systems without walls. Limits of time and output hold; memory, files and processes do not.
"""

from __future__ import annotations

from collections.abc import Iterable

from envweave.sandbox.process import ProcessBoundary


class LocalBoundary(ProcessBoundary):
    """The same workers without walls."""

    def __init__(self, *, python: str | None = None, preload: Iterable[str] = ()) -> None:
        super().__init__(isolation="unsafe", python=python, preload=preload)

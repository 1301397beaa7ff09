"""A live table of a rollout on standard error, and its last state as text."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from envweave.rollouts.summary import Summary

_TERMINAL = threading.Lock()
"""Held by the rollout that shows its table: two at once would overwrite each other."""


class Progress:
    """Shows a summary while it changes. `wanted=None` shows it if standard error is a terminal."""

    def __init__(self, wanted: bool | None = None) -> None:
        self._wanted = wanted

    @contextmanager
    def showing(self, summary: Summary) -> Iterator[None]:
        """Refresh the table four times a second; the last one stays."""
        if not (sys.stderr.isatty() if self._wanted is None else self._wanted) or not _TERMINAL.acquire(blocking=False):
            yield
            return
        try:
            with _table(summary):
                yield
        finally:
            _TERMINAL.release()


@contextmanager
def _table(summary: Summary) -> Iterator[None]:
    from rich.console import Console  # only for those who look
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    with Live(console=console, get_renderable=lambda: Text(str(summary)), refresh_per_second=4):
        yield

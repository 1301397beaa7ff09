"""Snapshots that clients know by name."""

from __future__ import annotations

import secrets
from typing import Any

from envweave.errors import UsageError

MOST = 256
"""Snapshots that one session may keep."""


class SessionShelf:
    """The snapshots of one session; any session of the server finds them by name."""

    def __init__(self, everything: dict[str, Any]) -> None:
        self._everything = everything
        self._own: list[str] = []

    def put(self, snapshot: Any) -> str:
        if len(self._own) >= MOST:
            raise UsageError(f"this session keeps {MOST} snapshots already", "fork, or close some sessions")
        name = secrets.token_urlsafe(12)
        self._everything[name] = snapshot
        self._own.append(name)
        return name

    def get(self, name: Any) -> Any:
        found = self._everything.get(name) if isinstance(name, str) else None
        if found is None:
            raise UsageError(f"no snapshot {name!r:.80}", "it goes with the session that made it")
        return found

    def drop(self, name: str) -> None:
        self._own.remove(name)
        discard = getattr(self._everything.pop(name), "discard", None)
        if discard is not None:
            discard()

    def clear(self) -> None:
        for name in self._own:
            self._everything.pop(name, None)
        self._own.clear()

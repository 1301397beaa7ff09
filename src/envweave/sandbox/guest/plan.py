"""What the host asks for: how strong the walls are, and how much may be used within them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

AGENT = 1000
"""The user that a session sees itself as, wherever it has users of its own."""

HOME = "/home/agent"
"""Where a session's files are, as it sees them, wherever it has a view of its own."""


ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""All that a session finds in its environment, but for HOME and TMPDIR. Numerical libraries keep to one thread."""


@dataclass(frozen=True)
class Plan:
    """The walls, the same for all sessions of a fork-server."""

    tier: str
    """`namespace`, `landlock`, `process`, `container` (the walls are there already) or `unsafe`."""
    uid: int
    gid: int
    """Whom sessions run as where the host is root."""
    readable: tuple[str, ...]
    """What of the host's files a session may read, the interpreter among them."""
    preload: tuple[str, ...]
    forks: bool
    """Sessions can be forked; each keeps the one capability that takes, within its own user namespace."""
    owner: int
    """The host's process, part of the names of temporary folders."""
    hidden: tuple[str, ...] = ()
    """Folders within `readable` whose files a session may not read."""

    @classmethod
    def read(cls, data: dict[str, Any]) -> Plan:
        return cls(**{each.name: _frozen(data[each.name]) for each in fields(cls)})

    @property
    def namespaces(self) -> bool:
        return self.tier == "namespace"


@dataclass(frozen=True)
class Bounds:
    """The limits that hold inside; all others are the host's to watch."""

    memory_bytes: int | None
    processes: int | None
    open_files: int | None
    file_bytes: int | None
    disk_bytes: int | None
    files: int | None
    return_bytes: int
    forks: int

    @classmethod
    def read(cls, data: dict[str, Any]) -> Bounds:
        return cls(**{each.name: data[each.name] for each in fields(cls)})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value

"""The writers of a run: who they are, and whether they still live.

Each writer holds a lock on `live/<writer>.lock` for as long as it lives. The kernel releases it when the process ends,
however it ends, so a lock that can be taken belongs to a writer that is gone. Without `fcntl` (Windows) every writer
counts as living.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl as _fcntl
except ImportError:  # not POSIX
    _fcntl = None  # type: ignore[assignment]

fcntl: Any = _fcntl


def new_writer() -> str:
    """A name for a writer: unique, and ordered by time."""
    return f"{int(time.time()):08x}{secrets.token_hex(3)}"


def lock_writer(live: Path, writer: str) -> int:
    """Take the lock of a new writer; returns the file descriptor that holds it."""
    while True:
        fd = os.open(live / f"{writer}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        if fcntl is None:
            return fd
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # another process took it first, found no episodes and removed it


def release_writer(live: Path, writer: str, fd: int) -> None:
    """The end of a writer that has left nothing behind."""
    try:
        (live / f"{writer}.lock").unlink(missing_ok=True)
    finally:
        os.close(fd)


@contextmanager
def dead_writers(live: Path) -> Iterator[list[str]]:
    """The writers that are gone and have left something in `live`. Their locks are held, and removed afterwards."""
    held: dict[str, int] = {}
    try:
        for writer in sorted({path.name.partition(".")[0] for path in live.glob("*.*")}):
            fd = _taken(live / f"{writer}.lock")
            if fd >= 0:
                held[writer] = fd
        yield list(held)
    finally:
        for writer, fd in held.items():
            if any(live.glob(f"{writer}.*.jsonl")):  # it could not be moved
                os.close(fd)
            else:
                release_writer(live, writer, fd)


def _taken(path: Path) -> int:
    """The descriptor of a lock that nobody held; -1 if its writer lives."""
    if fcntl is None:
        return -1
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink:  # another process may have removed it
            return fd
    except OSError:
        pass
    os.close(fd)
    return -1


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)

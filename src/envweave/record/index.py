"""The index of a segment: one row of 64 bytes for each episode, so that tools read a run without reading its episodes.

    offset u64, length u64     where the episode is in the segment
    steps u32                  number of steps
    started f64, wall f32      seconds since 1970, seconds
    return f32                 of the only agent, or the mean over agents
    scored u8                  whether the return is known
    reason u8                  a place in REASONS
    flags u16                  for detectors; 0
    task u32, group u32        lines of strings-<writer>.jsonl, from 0; the largest number is "none"
    env u16, policy u16        likewise
    attempt u8, agents u8
    parent u32                 likewise: the episode that this one was forked from
    key u32                    the first digits of the SHA-256 of the episode ID
    check u16                  of the 62 bytes before it

All numbers are little-endian. The index holds nothing that the segment does not: it is rebuilt if it is damaged.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

REASONS = (
    "unfinished", "terminated", "truncated", "agent_left", "invalid_action", "timeout", "infra_error", "closed",
)  # fmt: skip
OTHER = 255
"""In place of a reason that is not among them."""

NONE_32 = 0xFFFFFFFF
NONE_16 = 0xFFFF

_ROW = struct.Struct("<QQIdffBBHIIHHBBII")
ROW_BYTES = _ROW.size + 2
assert ROW_BYTES == 64


class IndexRow(NamedTuple):
    """One episode of a segment, see the top of the module."""

    offset: int
    length: int
    steps: int = 0
    started: float = 0.0
    wall: float = 0.0
    total: float = 0.0
    """The return."""
    scored: int = 0
    reason: int = 0
    flags: int = 0
    task: int = NONE_32
    group: int = NONE_32
    env: int = NONE_16
    policy: int = NONE_16
    attempt: int = 0
    agents: int = 1
    parent: int = NONE_32
    key: int = 0

    @property
    def strings(self) -> dict[str, int]:
        """The fields that are places of texts, without those that are "none"."""
        found = {name: getattr(self, name) for name in ("task", "group", "parent")}
        short = {name: getattr(self, name) for name in ("env", "policy")}
        return {name: n for name, n in found.items() if n != NONE_32} | {
            name: n for name, n in short.items() if n != NONE_16
        }

    def pack(self) -> bytes:
        row = _ROW.pack(*self)
        return row + (zlib.crc32(row) & 0xFFFF).to_bytes(2, "little")


def read_rows(data: bytes) -> Iterator[IndexRow]:
    """The rows in order, up to the first that is damaged, incomplete or does not follow the one before it."""
    offset = 0
    for start in range(0, len(data) - ROW_BYTES + 1, ROW_BYTES):
        row, check = data[start : start + _ROW.size], data[start + _ROW.size : start + ROW_BYTES]
        found = IndexRow(*_ROW.unpack(row))
        if zlib.crc32(row) & 0xFFFF != int.from_bytes(check, "little") or found.offset != offset or not found.length:
            return
        offset += found.length
        yield found


def key_of(episode: str) -> int:
    return int.from_bytes(hashlib.sha256(episode.encode()).digest()[:4], "little")


def row_of(header: dict[str, Any], end: dict[str, Any], strings: Strings, offset: int, length: int) -> IndexRow:
    """The row of an episode, from its first and its last line."""
    returns = end.get("return")
    known = [value for value in returns.values() if _is_number(value)] if isinstance(returns, dict) else []
    task, policy, parent = header.get("task"), header.get("policy"), header.get("parent")
    reason = end.get("reason")
    agents = header.get("agents")
    return IndexRow(
        offset=offset,
        length=length,
        steps=_count(end.get("n"), NONE_32),
        started=seconds_since_1970(header.get("started")),
        wall=float(end["t"]) if _is_number(end.get("t")) else 0.0,
        total=sum(known) / len(known) if known else 0.0,
        scored=int(bool(known)),
        reason=REASONS.index(reason) if reason in REASONS else OTHER,
        task=strings.number(task.get("id") if isinstance(task, dict) else task),
        group=strings.number(header.get("group")),
        env=strings.number(header.get("env"), NONE_16),
        policy=strings.number(policy.get("name") if isinstance(policy, dict) else policy, NONE_16),
        attempt=_count(header.get("attempt"), 255),
        agents=_count(len(agents) if isinstance(agents, list) else 1, 255),
        parent=strings.number(parent.get("episode") if isinstance(parent, dict) else None),
        key=key_of(str(header.get("episode"))),
    )


def seconds_since_1970(text: Any) -> float:
    """From a time as `episode` lines have it; 0 for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 3e38


def _count(value: Any, most: int) -> int:
    return min(value, most) if isinstance(value, int) and value >= 0 else 0


class Strings:
    """What index rows name by number: the lines of a file, each a text in JSON, to which new ones are added.

    Without a path they are kept in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._numbers: dict[str, int] = {}
        self._fd = -1

    def number(self, value: Any, none: int = NONE_32) -> int:
        """The place of a text, which is added if it is new; `none` for None, and if the list is full."""
        if value is None:
            return none
        text = value if isinstance(value, str) else json.dumps(value)
        if text not in self._numbers:
            self._add(text)
        known = self._numbers[text]
        return known if known < none else none

    def _add(self, text: str) -> None:
        if self._path is not None and self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        if self._fd >= 0:
            append(self._fd, json.dumps(text).encode() + b"\n")
        self._numbers[text] = len(self._numbers)

    @property
    def texts(self) -> list[str]:
        return list(self._numbers)

    def load(self, texts: Sequence[str]) -> None:
        """Begin with these texts, which are in the file, or with none if it is to be written anew."""
        self._numbers = {text: number for number, text in enumerate(texts)}
        if self._path is not None and not texts:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_strings(path: Path) -> list[str]:
    """The texts; none if the file is missing or damaged, as it is after a writer was killed in the middle of a line."""
    try:
        found = [json.loads(line) for line in path.read_bytes().splitlines()]
    except (OSError, ValueError):
        return []
    return found if all(isinstance(text, str) for text in found) else []


def append(fd: int, data: bytes) -> None:
    """Add all of the data to a file, or nothing of it. Raises `OSError`."""
    size = os.fstat(fd).st_size
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        with suppress(OSError):  # then readers skip what is left of it
            os.ftruncate(fd, size)
        raise

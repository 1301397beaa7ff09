"""Segments: files of finished episodes, each episode contiguous, with an index beside each file.

    ep-<writer>-<nnn>.jsonl       or .jsonl.gz, where each episode is a gzip member of its own
    ep-<writer>-<nnn>.idx

Only the writer of a segment adds to it. Whoever has the lock of a writer that is gone may do so in its place.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envweave.errors import RecordError
from envweave.record.encoding import decode
from envweave.record.index import IndexRow, Strings, read_rows, row_of

FULL = 256 * 2**20
"""Bytes. The next episode begins a new segment."""

_NAME = re.compile(r"ep-(?P<writer>[^.]+)-(?P<number>\d+)\.jsonl(?P<gz>\.gz)?")
_KIND = re.compile(rb'\s*\{\s*"kind"\s*:\s*"(\w+)"')


def kind_of(line: bytes) -> str:
    """The kind of a line; empty if it is not a line of a record."""
    match = _KIND.match(line)
    return match[1].decode() if match else ""


@dataclass(frozen=True)
class Segment:
    """One file of finished episodes."""

    path: Path
    writer: str
    number: int
    compressed: bool

    @property
    def index_path(self) -> Path:
        return self.path.with_name(f"ep-{self.writer}-{self.number:03}.idx")

    @property
    def strings_path(self) -> Path:
        return self.path.with_name(f"strings-{self.writer}.json")

    def read(self, offset: int, length: int) -> bytes:
        """The lines of one episode. Raises `RecordError` if they cannot be read."""
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                data = file.read(length)
            return gzip.decompress(data) if self.compressed else data
        except (OSError, EOFError, zlib.error) as error:
            raise RecordError(f"{self.path.name} cannot be read: {error}") from None

    def rows(self, strings: Strings | None = None) -> list[IndexRow]:
        """All complete episodes, in order: those of the index, and those that only a scan finds.

        Rows that a scan makes name their texts by number in `strings`.
        """
        size = self.path.stat().st_size
        try:
            listed = list(read_rows(self.index_path.read_bytes()))
        except OSError:
            listed = []
        while listed and listed[-1].offset + listed[-1].length > size:
            listed.pop()
        known = listed[-1].offset + listed[-1].length if listed else 0
        return listed if known == size else [*listed, *self._scanned(known, strings or Strings())]

    def _scanned(self, offset: int, strings: Strings) -> Iterator[IndexRow]:
        with self.path.open("rb") as file:
            file.seek(offset)
            found = _members(file, offset) if self.compressed else _episodes(file, offset)
            for first, last, start, length in found:
                try:
                    header, end = decode(first), decode(last)
                except RecordError:
                    continue
                yield row_of(header, end, strings, start, length)


def segments(folder: Path) -> list[Segment]:
    """The segments of a run, by writer and number."""
    found = []
    for path in folder.glob("ep-*.jsonl*"):
        match = _NAME.fullmatch(path.name)
        if match:
            found.append(Segment(path, match["writer"], int(match["number"]), bool(match["gz"])))
    return sorted(found, key=lambda segment: (segment.writer, segment.number))


def _episodes(file: Any, offset: int) -> Iterator[tuple[bytes, bytes, int, int]]:
    """The first and the last line of each complete episode, where it is and how long."""
    first, start = b"", 0
    for line in file:
        kind = kind_of(line)
        if kind == "episode":
            first, start = line, offset
        offset += len(line)
        if kind == "end" and first and line.endswith(b"\n"):
            yield first, line, start, offset - start
            first = b""


def _members(file: Any, offset: int) -> Iterator[tuple[bytes, bytes, int, int]]:
    """The same for episodes that are gzip members."""
    data = file.read()
    while data:
        inflate = zlib.decompressobj(31)
        try:
            lines = inflate.decompress(data).splitlines()
        except zlib.error:
            return
        if not inflate.eof:
            return
        length = len(data) - len(inflate.unused_data)
        if lines and kind_of(lines[0]) == "episode" and kind_of(lines[-1]) == "end":
            yield lines[0], lines[-1], offset, length
        offset += length
        data = inflate.unused_data


class SegmentWriter:
    """Adds finished episodes to the segments of one writer. Not safe for threads."""

    def __init__(self, folder: Path, writer: str, *, compress: bool = False, durable: bool = False) -> None:
        self._folder = folder
        self._writer = writer
        self._compress = compress
        self._durable = durable
        self._number = 0
        self._size = 0
        self._fd = self._index = -1
        self._strings = Strings(folder / f"strings-{writer}.json")

    def resume(self) -> bytes:
        """Go on after the last complete episode of a writer that is gone, and return that episode.

        What is after it is cut, and index rows that are missing are added.
        """
        mine = [segment for segment in segments(self._folder) if segment.writer == self._writer]
        if not mine:
            return b""
        last = mine[-1]
        self._compress, self._number = last.compressed, last.number
        rows = last.rows(self._strings)
        self._size = rows[-1].offset + rows[-1].length if rows else 0
        self._open()
        os.ftruncate(self._fd, self._size)
        os.ftruncate(self._index, 0)
        _write(self._index, b"".join(row.pack() for row in rows), 0)
        return last.read(rows[-1].offset, rows[-1].length) if rows else b""

    def append(self, lines: bytes, header: dict[str, Any], end: dict[str, Any]) -> None:
        """Add one episode and its row. Raises `OSError`, and leaves the segment as it was."""
        data = gzip.compress(lines, mtime=0) if self._compress else lines
        if self._fd >= 0 and self._size and self._size + len(data) > FULL:
            self.close()
            self._number, self._size = self._number + 1, 0
        if self._fd < 0:
            self._open()
        _write(self._fd, data, self._size)
        if self._durable:
            os.fsync(self._fd)
        row = row_of(header, end, self._strings, self._size, len(data))
        self._size += len(data)
        _write(self._index, row.pack(), os.fstat(self._index).st_size)

    def _open(self) -> None:
        name = f"ep-{self._writer}-{self._number:03}"
        suffix = ".jsonl.gz" if self._compress else ".jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._fd = os.open(self._folder / f"{name}{suffix}", flags, 0o644)
        self._index = os.open(self._folder / f"{name}.idx", flags, 0o644)

    def close(self) -> None:
        for fd in (self._fd, self._index):
            if fd >= 0:
                os.close(fd)
        self._fd = self._index = -1
        self._strings.close()


def _write(fd: int, data: bytes, size: int) -> None:
    """Add all of the data to a file of this size, or nothing of it."""
    try:
        written = os.write(fd, data) if data else 0
        while written < len(data):
            written += os.write(fd, data[written:])
    except OSError:
        os.ftruncate(fd, size)
        raise

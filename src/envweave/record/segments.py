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
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from envweave.errors import RecordError
from envweave.record.encoding import decode
from envweave.record.index import IndexRow, Strings, append, read_rows, read_strings, row_of

FULL = 256 * 2**20
"""Bytes. The next episode begins a new segment."""

PIECE = 2**20
"""Bytes that are read at a time, because an episode may be longer than the memory."""

_NAME = re.compile(r"ep-(?P<writer>[^.]+)-(?P<number>\d+)\.jsonl(?P<gz>\.gz)?")
_KIND = re.compile(rb'\s*\{\s*"kind"\s*:\s*"(\w+)"')
_FIRST = b'{"kind":"episode",'


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
        return self.path.with_name(f"strings-{self.writer}.jsonl")

    def read(self, offset: int, length: int) -> bytes:
        """The lines of one episode. Raises `RecordError` if they cannot be read."""
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                data = file.read(length)
            return gzip.decompress(data) if self.compressed else data
        except (OSError, EOFError, zlib.error) as error:
            raise RecordError(f"{self.path.name} cannot be read: {error}") from None

    def rows(self) -> tuple[list[IndexRow], list[str]]:
        """All complete episodes in order, and the texts that their rows name by number.

        They are those of the index, and those that only a scan finds.
        """
        try:
            listed = list(read_rows(self.index_path.read_bytes()))
        except OSError:
            listed = []
        strings, size = Strings(), self.path.stat().st_size
        strings.load(read_strings(self.strings_path))
        if not strings.texts and any(row.strings for row in listed):  # the file is missing or damaged
            listed = []
        while listed and listed[-1].offset + listed[-1].length > size:
            listed.pop()
        begin = listed[-1].offset + listed[-1].length if listed else 0
        if begin != size:
            listed += self._scanned(begin, strings)
        return listed, strings.texts

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

    def last_line(self, row: IndexRow) -> bytes:
        """The `end` of the last episode of the segment, which has nothing behind it."""
        if self.compressed:
            return self.read(row.offset, row.length).splitlines(keepends=True)[-1]
        with self.path.open("rb") as file:
            file.seek(row.offset)
            return deque(file, maxlen=1).pop()


def segments(folder: Path) -> list[Segment]:
    """The segments of a run, by writer and number."""
    found = []
    for path in folder.glob("ep-*.jsonl*"):
        match = _NAME.fullmatch(path.name)
        if match:
            found.append(Segment(path, match["writer"], int(match["number"]), bool(match["gz"])))
    return sorted(found, key=lambda segment: (segment.writer, segment.number))


def _episodes(file: BinaryIO, offset: int) -> Iterator[tuple[bytes, bytes, int, int]]:
    """The first and the last line of each complete episode, where it is and how long."""
    first, start = b"", 0
    for line in file:
        kind, skipped = kind_of(line), 0
        if not kind and (skipped := line.find(_FIRST)) > 0:  # behind something damaged that has lost its newline
            kind = "episode"
        if kind == "episode":
            first, start = line[skipped:], offset + skipped
        offset += len(line)
        if kind == "end" and first and line.endswith(b"\n"):
            yield first, line, start, offset - start
            first = b""


def _members(file: BinaryIO, offset: int) -> Iterator[tuple[bytes, bytes, int, int]]:
    """The same for episodes that are gzip members, up to the first that is damaged."""
    rest = file.read(PIECE)
    while rest:
        inflate, first, last, length = zlib.decompressobj(31), b"", b"", 0
        while not inflate.eof:
            if not rest and not (rest := file.read(PIECE)):
                return
            try:
                data = inflate.decompress(rest)
            except zlib.error:
                return
            length += len(rest) - len(inflate.unused_data)
            rest = inflate.unused_data
            if not first.endswith(b"\n"):
                first = (first + data).partition(b"\n")[0] + (b"\n" if b"\n" in data else b"")
            last = (last + data)[max(0, (last + data).rfind(b"\n", 0, -1) + 1) :]
        if kind_of(first) == "episode" and kind_of(last) == "end":
            yield first, last, offset, length
        offset += length
        rest = rest or file.read(PIECE)


class SegmentWriter:
    """Adds finished episodes to the segments of one writer. Not safe for threads."""

    def __init__(self, folder: Path, writer: str, *, compress: bool = False, durable: bool = False) -> None:
        self._folder = folder
        self._writer = writer
        self._compress = compress
        self._durable = durable
        self._number = 0
        self._fd = self._index = -1
        self._strings = Strings(folder / f"strings-{writer}.jsonl")

    def resume(self) -> bytes:
        """Go on after the last complete episode of a writer that is gone, and return its last line.

        What is after it is cut, and index rows that are missing are added.
        """
        mine = [segment for segment in segments(self._folder) if segment.writer == self._writer]
        if not mine:
            return b""
        last = mine[-1]
        self._compress, self._number = last.compressed, last.number
        rows, texts = last.rows()
        known = read_strings(last.strings_path)
        self._strings.load(known)
        if not known:  # they get other numbers
            for segment in mine:
                segment.index_path.unlink(missing_ok=True)
        for text in texts:
            self._strings.number(text)
        self._open()
        os.ftruncate(self._fd, rows[-1].offset + rows[-1].length if rows else 0)
        os.ftruncate(self._index, 0)
        append(self._index, b"".join(row.pack() for row in rows))
        return last.last_line(rows[-1]) if rows else b""

    def append(self, source: int, size: int, header: dict[str, Any], end: dict[str, Any]) -> None:
        """Add the episode in a file of that size, and its row. Raises `OSError`, and leaves the segment as it was."""
        if self._index < 0:
            self._open()
        offset = os.fstat(self._fd).st_size
        if offset and offset + size > FULL:
            self._close_files()
            self._number, offset = self._number + 1, 0
            self._open()
        try:
            length = self._copy(source, size)
            if self._durable:
                os.fsync(self._fd)
            append(self._index, row_of(header, end, self._strings, offset, length).pack())
        except BaseException:
            with suppress(OSError):  # then readers skip what is left of it
                os.ftruncate(self._fd, offset)
            raise

    def _copy(self, source: int, size: int) -> int:
        """Returns how many bytes the segment has more."""
        deflate = zlib.compressobj(wbits=31) if self._compress else None
        length = offset = 0
        while offset < size:
            data = os.pread(source, min(PIECE, size - offset), offset)
            if not data:
                raise OSError(5, "the file of the episode was cut")
            offset += len(data)
            data = data if deflate is None else deflate.compress(data)
            append(self._fd, data)
            length += len(data)
        if deflate is not None:
            data = deflate.flush()
            append(self._fd, data)
            length += len(data)
        return length

    def _open(self) -> None:
        self._close_files()
        name = f"ep-{self._writer}-{self._number:03}"
        suffix = ".jsonl.gz" if self._compress else ".jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._fd = os.open(self._folder / f"{name}{suffix}", flags, 0o644)
        self._index = os.open(self._folder / f"{name}.idx", flags, 0o644)

    def close(self) -> None:
        self._close_files()
        self._strings.close()

    def _close_files(self) -> None:
        for fd in (self._fd, self._index):
            if fd >= 0:
                os.close(fd)
        self._fd = self._index = -1

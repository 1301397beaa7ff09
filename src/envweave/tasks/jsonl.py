"""Tasks in a JSONL file. The offsets of the lines are read once; a line is parsed when it is asked for."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from envweave.core.suggest import nearest
from envweave.core.task import Task
from envweave.errors import UsageError
from envweave.tasks.rows import Rows

Stamp = tuple[int, int]
"""The size of a file and the time of its last change."""


class JSONLRows(Rows):
    """One JSON object per line, UTF-8; empty lines are left out.

    Eight bytes are kept for each line. The file is opened for each read. If it has changed since its offsets were read,
    `UsageError` is raised.
    """

    def __init__(self, path: str | os.PathLike[str], split: str = "") -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self.name = os.fspath(path)
        self.split = split
        self._offsets: array[int] | None = None
        self._stamp: Stamp | None = None
        self._size = -1
        """Of the file; a pickle has no offsets, and expects a file of the same size where it is read."""
        self._index()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_offsets": None, "_stamp": None}

    def __len__(self) -> int:
        return len(self._index())

    def row(self, position: int) -> dict[str, Any]:
        with self._opened() as file:
            return self._read(file, position)

    def tasks(self, order: Iterable[int]) -> Iterator[Task]:
        with self._opened() as file:
            for position in order:
                yield self.made(self._read(file, position), position)

    def named(self) -> Iterator[tuple[Any, Any]]:
        with self._opened() as file:
            for position in range(len(self)):
                row = self._read(file, position)
                yield row.get("id"), row.get("split")

    def where(self, position: int) -> str:
        """The file and the line, which is counted here: few callers ask."""
        number, left = 1, self._index()[position]
        with self._opened() as file:
            while left and (part := file.read(min(left, 1 << 20))):
                number += part.count(b"\n")
                left -= len(part)
        return f"{self.name}:{number}"

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The file, if it is still the one whose offsets are known."""
        self._index()
        with self._open() as file:
            if _stamp(file) != self._stamp:
                raise self._changed()
            yield file

    def _open(self) -> BinaryIO:
        try:
            return open(self.path, "rb")
        except OSError as error:
            hint = ""
            if isinstance(error, FileNotFoundError):
                folder = os.path.dirname(self.path)
                near = nearest(os.path.basename(self.path), os.listdir(folder) if os.path.isdir(folder) else ())
                hint = f"did you mean {near!r}?" if near else "paths are relative to the current folder"
            raise UsageError(f"{self.name} cannot be read: {error.strerror or error}", hint) from None

    def _read(self, file: BinaryIO, position: int) -> dict[str, Any]:
        file.seek(self._index()[position])
        return self._parsed(file.readline(), position)

    def _parsed(self, line: bytes, position: int) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, nested too deeply
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise UsageError(
                f"{self.where(position)} is not JSON: {reason}", "write one JSON object per line"
            ) from None
        if not isinstance(row, dict):
            message = f"{self.where(position)} is a {type(row).__name__}, not an object"
            raise UsageError(message, 'write {"id": …, "prompt": …}')
        return row

    def _index(self) -> array[int]:
        if self._offsets is not None:
            return self._offsets
        offsets, at = array("Q"), 0
        add = offsets.append
        with self._open() as file:
            stamp = _stamp(file)
            for line in file:
                if not line.isspace():
                    add(at)
                at += len(line)
        if self._size not in (-1, stamp[0]):
            raise self._changed()
        self._size, self._stamp, self._offsets = stamp[0], stamp, offsets
        return offsets

    def _changed(self) -> UsageError:
        return UsageError(f"{self.name} has changed since it was loaded", "load it again")


def _stamp(file: BinaryIO) -> Stamp:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns

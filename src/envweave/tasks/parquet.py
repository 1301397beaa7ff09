"""Tasks in a parquet file. Only this module imports pyarrow."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from envweave.errors import UsageError, describe
from envweave.tasks.rows import Rows


class ParquetRows(Rows):
    """The rows of a file. The row group that was read last is kept, so that neighbours are read together."""

    def __init__(self, path: str | os.PathLike[str], split: str = "") -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self.name = os.fspath(path)
        self.split = split
        with self._opened() as file:
            groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            self._columns = [name for name in ("id", "split") if name in file.schema_arrow.names]
        self._ends = list(accumulate(groups))
        self._group: tuple[int, Any] | None = None
        """The number of a row group, and the group."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_group": None}

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def row(self, position: int) -> dict[str, Any]:
        number = bisect_right(self._ends, position)
        group = self._group
        if group is None or group[0] != number:
            with self._opened() as file:
                group = self._group = number, file.read_row_group(number, use_threads=False)  # also in forked processes
        first = self._ends[number - 1] if number else 0
        row: dict[str, Any] = group[1].slice(position - first, 1).to_pylist()[0]
        return row

    def named(self) -> Iterator[tuple[Any, Any]]:
        if not self._columns:
            yield from [(None, None)] * len(self)
            return
        with self._opened() as file:
            for batch in file.iter_batches(columns=self._columns, use_threads=False):
                for row in batch.to_pylist():
                    yield row.get("id"), row.get("split")

    def _opened(self) -> Any:
        try:
            return parquet.ParquetFile(self.path)
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{self.name} cannot be read: {describe(error)}", "is it a parquet file?") from None

"""Where tasks come from. A source has rows by position and says in messages where a row is.

A source is immutable and shared by all `Tasks` that select from it. It keeps no open files, so that threads, forks and
pickles may use it freely.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from envweave.core.task import Task, checked_id, checked_split, copied
from envweave.errors import UsageError


class Labels(NamedTuple):
    """The ID and the split of each row."""

    ids: list[str]
    splits: list[str]


class Rows(ABC):
    """Rows by position."""

    name: str = "the list"
    """The source in messages."""
    split: str = ""
    """The split of rows that do not name one."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def row(self, position: int) -> Mapping[str, Any]:
        """The fields of one row, for the caller to keep. Raises `UsageError` that says where the row is."""

    def where(self, position: int) -> str:
        """A row in messages."""
        return f"task {position} of {self.name}" + (f", split {self.split!r}" if self.split else "")

    def task(self, position: int) -> Task:
        return self.made(self.row(position), position)

    def tasks(self, order: Iterable[int]) -> Iterator[Task]:
        """Many of them."""
        return map(self.task, order)

    def made(self, row: Mapping[str, Any], position: int) -> Task:
        try:
            return Task(row, id=self.default_id(position), split=self.split)
        except UsageError as error:
            raise self.refused(position, error) from None

    def default_id(self, position: int) -> str:
        """The ID of a row that has none: its position, after its split if all rows are of one."""
        return f"{self.split}/{position}" if self.split else str(position)

    def refused(self, position: int, error: UsageError) -> UsageError:
        return UsageError(f"{self.where(position)}: {error.message}", error.hint)

    def named(self) -> Iterator[tuple[Any, Any]]:
        """The fields `id` and `split` of each row, None where it has none. A source with columns reads only those."""
        for position in range(len(self)):
            row = self.row(position)
            yield row.get("id"), row.get("split")

    @cached_property
    def labels(self) -> Labels:
        """Read with the first question about IDs or splits. Raises `UsageError` for an ID that occurs twice."""
        ids: list[str] = []
        splits: list[str] = []
        seen: dict[str, int] = {}
        for position, (id, split) in enumerate(self.named()):
            try:
                name = checked_id(id) or self.default_id(position)
                splits.append(checked_split(split) or self.split)
            except UsageError as error:
                raise self.refused(position, error) from None
            if name in seen:
                message = f"the id {name!r} occurs twice: {self.where(seen[name])} and {self.where(position)}"
                raise UsageError(message, "give each task an id of its own")
            seen[name] = position
            ids.append(name)
        return Labels(ids, splits)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "labels"}


class ListedRows(Rows):
    """Rows in memory. A caller gets a copy of what can be changed in a row."""

    def __init__(self, rows: Iterable[Any], split: str = "") -> None:
        self.split = split
        self._rows = list(rows)
        for position, row in enumerate(self._rows):
            if not isinstance(row, Mapping):
                message = f"{self.where(position)} is a {type(row).__name__}, not a mapping"
                raise UsageError(message, 'write {"id": …, "prompt": …}')

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, position: int) -> Mapping[str, Any]:
        try:
            return copied(self._rows[position])
        except UsageError as error:
            raise self.refused(position, error) from None

    def named(self) -> Iterator[tuple[Any, Any]]:
        return ((row.get("id"), row.get("split")) for row in self._rows)


class MappedRows(Rows):
    """The rows of another source, each changed by a function when it is asked for."""

    def __init__(self, rows: Rows, function: Callable[[Task], Any]) -> None:
        self.name, self.split = rows.name, rows.split
        self._rows = rows
        self._function = function

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, position: int) -> Mapping[str, Any]:
        task = self._rows.task(position)
        row = self._function(task)
        if not isinstance(row, Mapping):
            message = f"{self.where(position)}: the function returned a {type(row).__name__}, not a mapping"
            raise UsageError(message, 'return {"prompt": …}')
        kept = {"id": task.id, "split": task.split} if task.split else {"id": task.id}
        return {**kept, **row}

    def where(self, position: int) -> str:
        return self._rows.where(position)

    def default_id(self, position: int) -> str:
        return self._rows.default_id(position)


class JoinedRows(Rows):
    """The rows of several sources, one after the other."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self.name = " and ".join(dict.fromkeys(part.name for part in parts))
        self._parts = tuple(parts)
        self._ends = list(accumulate(len(part) for part in parts))

    def __len__(self) -> int:
        return self._ends[-1]

    def _found(self, position: int) -> tuple[Rows, int]:
        number = bisect_right(self._ends, position)
        return self._parts[number], position - (self._ends[number - 1] if number else 0)

    def row(self, position: int) -> Mapping[str, Any]:
        part, inner = self._found(position)
        return part.task(inner)

    def where(self, position: int) -> str:
        part, inner = self._found(position)
        return part.where(inner)

    def named(self) -> Iterator[tuple[Any, Any]]:
        return (label for part in self._parts for label in zip(*part.labels, strict=True))


class SelectedRows(Rows):
    """Some rows of another source, in another order."""

    def __init__(self, rows: Rows, order: Sequence[int]) -> None:
        self.name, self.split = rows.name, rows.split
        self._rows = rows
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def row(self, position: int) -> Mapping[str, Any]:
        return self._rows.task(self._order[position])

    def where(self, position: int) -> str:
        return self._rows.where(self._order[position])

    def named(self) -> Iterator[tuple[Any, Any]]:
        ids, splits = self._rows.labels
        return ((ids[position], splits[position]) for position in self._order)

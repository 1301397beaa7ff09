"""`Tasks`: an immutable sequence of tasks."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import eq, index
from random import Random
from typing import Any, Self, overload

from envweave.core.lookup import load
from envweave.core.suggest import nearest
from envweave.core.task import Task
from envweave.errors import TaskNotFoundError, UsageError
from envweave.tasks.jsonl import JSONLRows
from envweave.tasks.rows import JoinedRows, ListedRows, MappedRows, Rows, SelectedRows

NEAREST_AMONG = 10_000
"""How many IDs are compared to suggest one: of more, those with the same letters in the same places."""


class Tasks(Sequence[Task]):
    """Tasks by index and by ID, in a fixed order. Nothing in it can be changed: what selects returns new `Tasks`.

        tasks = Tasks.from_jsonl("tasks.jsonl")
        tasks[3], tasks["sort-17"], tasks[:100], tasks.split("test"), tasks.shuffled(seed=1)

    A row is a mapping; its fields `id`, `split` and `prompt` have a meaning, all others are the environment's. A row
    without an ID is named by its position in its source: "0", "1", … or "test/0" where the source is one split.
    `Tasks` are cheap to select from, pickle, and may be shared by threads and forks; a copy is the same object.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], *, split: str = "") -> None:
        """`split` is that of the rows that do not name one. Raises `UsageError` for no rows, and for an ID twice."""
        if isinstance(rows, Mapping | str | bytes):
            raise UsageError(f"tasks are a {type(rows).__name__}, not a list of mappings", 'write [{"prompt": …}, …]')
        listed = ListedRows(rows, split)
        _ = _filled(listed).labels  # they are at hand, so that mistakes in them are reported now
        self._rows: Rows = listed
        self._order: Sequence[int] = range(len(listed))

    @classmethod
    def _of(cls, rows: Rows, order: Sequence[int] | None = None) -> Self:
        tasks = cls.__new__(cls)
        tasks._rows = rows
        tasks._order = range(len(rows)) if order is None else order
        return tasks

    @classmethod
    def from_jsonl(cls, path: str | os.PathLike[str], *, split: str = "") -> Self:
        """The lines of a file, each a JSON object. A line is parsed when it is asked for.

        Raises `UsageError` for a file that cannot be read or is empty, and, when a line is asked for, for one that is
        malformed, with the file and the line.
        """
        return cls._of(_filled(JSONLRows(path, split)))

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str], *, split: str = "") -> Self:
        """The rows of a parquet file. One row group at a time is kept in memory. Needs the extra `tasks`."""
        return cls._of(_filled(load("envweave.tasks.parquet:ParquetRows", extra="tasks")(path, split)))

    @classmethod
    def from_dataset(
        cls, dataset: Any, *, split: str | None = None, revision: str | None = None, config: str | None = None
    ) -> Self:
        """The rows of a Hugging Face dataset: a `Dataset`, a `DatasetDict`, a folder, or a name on the hub.

        Without `split`, all splits are there, one after the other. `revision` and `config` are for names on the hub.
        Raises `UsageError` for an unknown split, and `UnavailableError` if the hub does not have the dataset or cannot
        be reached. Needs the extra `tasks`.
        """
        found = load("envweave.tasks.huggingface:dataset_rows", extra="tasks")(dataset, split, revision, config)
        parts = [_filled(rows) for rows in found]
        return cls._of(parts[0] if len(parts) == 1 else JoinedRows(parts))

    # A sequence.

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, key: int | str) -> Task: ...

    @overload
    def __getitem__(self, key: slice) -> Self: ...

    def __getitem__(self, key: int | str | slice) -> Task | Self:
        """A task by index or by ID, or the tasks of a slice. Raises `TaskNotFoundError`."""
        if isinstance(key, str):
            return self._rows.task(self._order[self._place(key)])
        if isinstance(key, slice):
            return self._of(self._rows, self._order[key])
        try:
            number = index(key)
        except TypeError:
            raise UsageError(f"no task has the key {key!r:.80}", "pass an index, an ID or a slice") from None
        if not -len(self) <= number < len(self):
            hint = f"tasks are numbered 0 to {len(self) - 1}" if len(self) else "there are no tasks"
            raise TaskNotFoundError(f"no task {number}", hint)
        return self._rows.task(self._order[number])

    def __iter__(self) -> Iterator[Task]:
        return self._rows.tasks(self._order)

    def __contains__(self, item: object) -> bool:
        """Whether there is a task with this ID, or this very task."""
        if isinstance(item, str):
            return item in self._places
        return isinstance(item, Task) and item.id in self._places and self[item.id] == item

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The position of a task, or of the task with an ID. Raises `TaskNotFoundError`."""
        place = self._place(value.id if isinstance(value, Task) else str(value))
        if place not in range(*slice(start, stop).indices(len(self))):
            raise TaskNotFoundError(f"no task {value!r} from {start} to {stop}")
        return place

    def __add__(self, other: Tasks) -> Tasks:
        """The tasks of both, one after the other."""
        if not isinstance(other, Tasks):
            return NotImplemented
        return Tasks._of(JoinedRows([SelectedRows(each._rows, each._order) for each in (self, other)]))

    # IDs, splits and orders.

    @property
    def ids(self) -> tuple[str, ...]:
        """The IDs in order. Raises `UsageError` for a malformed row, and for an ID that occurs twice."""
        return tuple(self._places)

    @cached_property
    def _places(self) -> dict[str, int]:
        ids = self._rows.labels.ids
        return {ids[position]: place for place, position in enumerate(self._order)}

    def _place(self, id: str) -> int:
        try:
            return self._places[id]
        except KeyError:
            pass
        likely = list(self._places)
        if len(likely) > NEAREST_AMONG:
            likely = sorted(likely, key=lambda known: -sum(map(eq, known, id)))[:NEAREST_AMONG]
        near = nearest(id, likely)
        hint = f"did you mean {near!r}?" if near else f"there are {len(self)} tasks; tasks.ids has their IDs"
        raise TaskNotFoundError(f"no task {id!r}", hint)

    @cached_property
    def splits(self) -> dict[str, int]:
        """How many tasks each split has. Tasks without a split are not counted."""
        counts: dict[str, int] = {}
        splits = self._rows.labels.splits
        for position in self._order:
            if split := splits[position]:
                counts[split] = counts.get(split, 0) + 1
        return counts

    def split(self, name: str) -> Self:
        """The tasks of one split. Raises `TaskNotFoundError` if there are none."""
        splits = self._rows.labels.splits
        order = array("Q", (position for position in self._order if splits[position] == name))
        if not order:
            known = ", ".join(map(repr, self.splits))
            raise TaskNotFoundError(f"no tasks in the split {name!r}", f"splits: {known}" if known else "no splits")
        return self._of(self._rows, order)

    def shuffled(self, seed: int) -> Self:
        """The tasks in another order, which depends on the seed alone: it is the same on every machine."""
        order = array("Q", self._order)
        Random(_whole(seed)).shuffle(order)
        return self._of(self._rows, order)

    def by_seed(self, seed: int) -> Task:
        """The task number `seed` modulo the number of tasks: consecutive seeds go through all of them."""
        if not len(self):
            raise TaskNotFoundError("there are no tasks")
        return self[_whole(seed) % len(self)]

    def map(self, function: Callable[[Task], Mapping[str, Any]]) -> Tasks:
        """Tasks with the fields that `function` returns for each, called when a task is asked for.

        The ID and the split stay, unless it returns others: `tasks.map(lambda task: {"prompt": task["question"]})`.
        """
        return Tasks._of(MappedRows(SelectedRows(self._rows, self._order), function))

    async def fetch(self) -> Self:
        """The tasks, which are here already. Those of a server have to be fetched in a coroutine."""
        return self

    # Copies.

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> Any:
        return _unpickled, (type(self), self._rows, self._order)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} from {self._rows.name}: {len(self)}>"


def _unpickled(cls: type[Tasks], rows: Rows, order: Sequence[int]) -> Tasks:
    return cls._of(rows, order)


def _filled(rows: Rows) -> Rows:
    if not len(rows):
        split = f"the split {rows.split!r} of " if rows.split else ""
        raise UsageError(f"{split}{rows.name} has no tasks", "add a task for each episode to be played")
    return rows


def _whole(seed: Any) -> int:
    try:
        return index(seed)
    except TypeError:
        raise UsageError(f"seed is {seed!r:.80}", "use a whole number") from None

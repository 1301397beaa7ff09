"""`TaskListing`: the tasks of an environment on a server, without the fields that only the environment may see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Self

from envweave.core.selection import PAGE
from envweave.core.task import ListedTask
from envweave.errors import ProtocolError, TaskNotFoundError, UsageError

if TYPE_CHECKING:
    from envweave.core.backend import Backend

PROMPTS = 100
"""How many tasks are asked for at a time with their prompts."""


class TaskListing(Sequence[ListedTask]):
    """IDs, splits and prompts, asked for in parts when they are needed, as calls of the environment.

    Pass an element, its ID or its index to `reset`. In a coroutine, `await tasks.fetch()` first: it asks for all IDs,
    so that `len`, `ids` and `splits` need no further calls.
    """

    def __init__(self, backend: Backend, split: str | None = None) -> None:
        self._backend = backend
        self._split = split
        self._number: int | None = None
        self._splits: dict[str, int] = {}
        self._ids: list[str] = []
        """The first IDs, as far as they were asked for."""
        self._pages: dict[int, list[ListedTask]] = {}

    def __len__(self) -> int:
        if self._number is None:
            self._read_ids(self._asked(self._next_ids))
        return self._number or 0

    def __getitem__(self, key: Any) -> Any:
        """A task by index or by ID, or a list of those in a slice. Raises `TaskNotFoundError`."""
        if isinstance(key, str):
            (task,) = _tasks(self._asked(self._query(task=key)))
            return task
        if isinstance(key, slice):
            return [self[number] for number in range(*key.indices(len(self)))]
        number = index(key)
        if not -len(self) <= number < len(self):
            hint = f"tasks are numbered 0 to {len(self) - 1}" if len(self) else "there are no tasks"
            raise TaskNotFoundError(f"no task {number}", hint)
        page, place = divmod(number % len(self), PROMPTS)
        if page not in self._pages:
            self._pages[page] = _tasks(self._asked(self._query(first=page * PROMPTS, count=PROMPTS)))
        return self._pages[page][place]

    def __iter__(self) -> Iterator[ListedTask]:
        return (self[number] for number in range(len(self)))

    @property
    def ids(self) -> tuple[str, ...]:
        """The IDs of all tasks, in order."""
        while len(self._ids) < len(self):
            self._read_ids(self._asked(self._next_ids))
        return tuple(self._ids)

    @property
    def splits(self) -> dict[str, int]:
        """How many tasks each split has."""
        if self._number is None:
            len(self)
        return dict(self._splits) if self._split is None else {self._split: len(self)}

    def split(self, name: str) -> TaskListing:
        """The tasks of one split. Raises `TaskNotFoundError`, at the latest when they are asked for."""
        if self._number is not None and name not in self.splits:
            raise TaskNotFoundError(f"no tasks in the split {name!r}", f"splits: {', '.join(map(repr, self.splits))}")
        return TaskListing(self._backend, name)

    def by_seed(self, seed: int) -> ListedTask:
        """The task that `reset(seed=seed)` selects, if this is the whole list."""
        found: ListedTask = self[seed % len(self)]
        return found

    async def fetch(self) -> Self:
        """Ask for all IDs."""
        while self._number is None or len(self._ids) < self._number:
            self._read_ids(await self._backend.acall("tasks", self._next_ids))
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._backend.id}>"

    def _query(self, **data: Any) -> dict[str, Any]:
        return data if self._split is None else {**data, "split": self._split}

    @property
    def _next_ids(self) -> dict[str, Any]:
        return self._query(first=len(self._ids), count=PAGE, prompts=False)

    def _asked(self, data: dict[str, Any]) -> Any:
        from envweave.core.loop import running_loop  # asyncio, which a server's client needs anyway

        home = getattr(self._backend, "home", None)
        if home is not None and running_loop() is home:
            raise UsageError("the server's tasks are not known here yet", "await env.tasks.fetch() first")
        return self._backend.call("tasks", data)

    def _read_ids(self, reply: Any) -> None:
        ids = [task.id for task in _tasks(reply)]
        self._number, self._splits = int(reply.get("number", 0)), dict(reply.get("splits", {}))
        if not ids and len(self._ids) < self._number:
            raise ProtocolError(f"the server lists {len(self._ids)} of {self._number} tasks")
        self._ids += ids


def _tasks(reply: Any) -> list[ListedTask]:
    try:
        return [ListedTask(each["id"], each.get("split", ""), each.get("prompt", "")) for each in reply["tasks"]]
    except (AttributeError, KeyError, TypeError):
        raise ProtocolError(f"the server's reply is not a list of tasks: {reply!r:.200}") from None

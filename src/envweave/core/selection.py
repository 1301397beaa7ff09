"""Which task an episode has: selected by index, ID, seed or row, or drawn.

An environment has tasks if its attribute `tasks` is a `TaskList` and its `reset` takes `task`. The lists themselves are
in `envweave.tasks`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from operator import index
from random import Random
from typing import Any, NamedTuple, Protocol

from envweave.core.task import Task, copied
from envweave.errors import UsageError

HINT = "pass an index, an ID or a mapping"


class TaskList(Protocol):
    """Tasks by index and by ID. `envweave.tasks.Tasks` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any:
        """Raises `TaskNotFoundError`."""

    def __iter__(self) -> Iterator[Any]: ...

    def by_seed(self, seed: int) -> Any:
        """The same task for the same seed, everywhere."""

    @property
    def ids(self) -> Any: ...

    @property
    def splits(self) -> Mapping[str, int]: ...

    def split(self, name: str) -> TaskList: ...

    async def fetch(self) -> TaskList:
        """Ask for what is not here yet; in a coroutine, before anything else."""


class ChosenTask(NamedTuple):
    """The task of an episode, and where the draw of the next one stands. It is a part of snapshots."""

    id: str
    seed: int | None = None
    """The last seed that was given, or one that was made up when there was none."""
    draws: int = 0
    """How many tasks were drawn since."""


def tasks_of(env: Any) -> TaskList | None:
    """The tasks of an environment; None if it has none. Raises what the attribute raises."""
    tasks = getattr(env, "tasks", None)
    return tasks if callable(getattr(type(tasks), "by_seed", None)) else None


def choose(tasks: TaskList, given: Any, seed: Any, last: ChosenTask | None) -> tuple[Task, ChosenTask]:
    """The task for a reset: the one that is given, else the one of the seed, else a draw.

    Draws depend only on the last seed and their number, so that a seeded run is reproducible through further resets.
    Raises `UsageError`.
    """
    number, draws = (None, 0) if last is None else (last.seed, last.draws)
    if seed is not None:
        number, draws = _whole(seed, "seed"), 0
    if given is not None:
        task = selected(tasks, given)
    elif seed is not None and number is not None:
        task = tasks.by_seed(number)
    else:
        if number is None:
            number = int.from_bytes(os.urandom(8))
        draws += 1
        if not len(tasks):
            raise UsageError("there are no tasks", "give the environment some")
        task = tasks[Random(f"{number}/{draws}").randrange(len(tasks))]
    return task, ChosenTask(task.id, number, draws)


def selected(tasks: TaskList, given: Any) -> Task:
    """The task that a caller means by an index, an ID, a `Task` or a row, which is copied."""
    return Task(copied(given)) if isinstance(given, Mapping) else found(tasks, given)


def found(tasks: TaskList, key: Any) -> Task:
    """The task with an index or an ID."""
    task: Task = tasks[key if isinstance(key, str) else _whole(key, "task")]
    return task


PAGE = 1000
"""How many tasks are listed at a time, at most."""


def listing(tasks: TaskList, data: Mapping[str, Any]) -> dict[str, Any]:
    """What may be told about tasks: their number, the splits, and for each its ID, split and prompt.

    `data` may have `split`, `first` and `count` (the tasks to list, 0 and 1000), `task` (the only one to list, by ID or
    index), and `prompts` (False leaves them out, and is faster). Other fields of tasks, which may be answers, are
    never listed. Raises `UsageError`.
    """
    splits = dict(tasks.splits)
    if data.get("split") is not None:
        tasks = tasks.split(str(data["split"]))
    first, count = (_number(data.get(name), name, default) for name, default in (("first", 0), ("count", PAGE)))
    some = range(first, min(first + min(count, PAGE), len(tasks)))
    if data.get("task") is not None:
        listed = [_listed(found(tasks, data["task"]))]
    elif data.get("prompts") is False:
        listed = [{"id": id} for id in tasks.ids[some.start : some.stop]]
    else:
        listed = [_listed(tasks[number]) for number in some]
    return {"number": len(tasks), "splits": splits, "tasks": listed}


def _listed(task: Task) -> dict[str, str]:
    found = {"id": task.id, "split": task.split, "prompt": task.prompt}
    return {name: value for name, value in found.items() if value}


def _number(value: Any, name: str, default: int) -> int:
    if value is None:
        return default
    number = _whole(value, name)
    if number < 0:
        raise UsageError(f"{name} is {number}", "use 0 or more")
    return number


def _whole(value: Any, name: str) -> int:
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise UsageError(f"{name} is {value!r:.80}", HINT if name == "task" else "use a whole number")

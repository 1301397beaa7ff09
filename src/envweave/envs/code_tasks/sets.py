"""Where the tasks of an environment come from: a list, a file, or a set that ships with envweave."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from envweave.core.suggest import nearest
from envweave.errors import UsageError
from envweave.tasks import Tasks

TaskSource: TypeAlias = "Tasks | Iterable[Mapping[str, Any]] | str | os.PathLike[str]"
"""`Tasks`, rows, the path of a JSONL or parquet file, or the name of a set that ships."""

SHIPPED = ("programming",)
"""Each is a file in `envs/data`, which code in the sandbox cannot read."""

_DATA = Path(__file__).parent.parent / "data"


def open_tasks(source: TaskSource | None) -> Tasks | None:
    """The tasks; None for None. Raises `UsageError` for a file that cannot be read and for a malformed list."""
    if source is None or isinstance(source, Tasks):
        return source
    if isinstance(source, str) and source in SHIPPED:
        return _shipped(source)
    if isinstance(source, str) and not source.endswith((".jsonl", ".parquet")) and not os.path.exists(source):
        near = nearest(source, SHIPPED)
        hint = (
            f"did you mean {near!r}?" if near else "pass the path of a .jsonl or .parquet file, 'programming', or rows"
        )
        raise UsageError(f"there are no tasks {source!r:.200}", hint)
    if isinstance(source, str | os.PathLike):
        return (Tasks.from_parquet if os.fspath(source).endswith(".parquet") else Tasks.from_jsonl)(source)
    if not isinstance(source, Iterable):
        raise UsageError(f"tasks is a {type(source).__name__}", "pass Tasks, a list of rows, or the path of a file")
    return Tasks(source)


@cache
def _shipped(name: str) -> Tasks:
    return Tasks.from_jsonl(_DATA / f"{name}.jsonl")

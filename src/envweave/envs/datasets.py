"""Tasks of environments that are backed by a data set: where the rows come from, and which of them are played."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from envweave.errors import UnavailableError, UsageError
from envweave.tasks.tasks import Tasks

SAMPLE = "sample"
"""A `dataset_path` that stands for the few rows that ship."""


def located(dataset_path: str | os.PathLike[str] | None) -> str | None:
    """The path in a form that stays the same if the working directory changes."""
    return dataset_path if dataset_path is None or dataset_path == SAMPLE else os.path.abspath(dataset_path)


def dataset_tasks(dataset_path: str | None, *, split: str, hub: str, config: str | None, sample: str) -> Tasks:
    """One split of a data set, in its own order.

    `dataset_path` is a JSONL or parquet file, a folder with `<split>.jsonl` or `<split>.parquet`, a folder that
    `save_to_disk` wrote, or `"sample"` for the few rows that ship. None downloads `hub` into the cache of `datasets`,
    which checks and resumes downloads.
    """
    if dataset_path is None:
        try:
            return Tasks.from_dataset(hub, split=split, config=config)
        except UnavailableError as error:
            hint = f"offline: dataset_path='sample' has a few rows; dataset_path=FOLDER reads FOLDER/{split}.jsonl"
            raise UnavailableError(error.message, hint) from error
    if dataset_path == SAMPLE:
        return Tasks.from_jsonl(str(files("envweave.envs") / "data" / sample)).split(split)
    path = Path(dataset_path)
    if path.is_dir():
        found = [file for kind in ("jsonl", "parquet") if (file := path / f"{split}.{kind}").is_file()]
        if not found:
            return Tasks.from_dataset(str(path), split=split)
        path = found[0]
    if not path.is_file():
        raise UsageError(f"dataset_path {dataset_path!r} does not exist", "a file, a folder, or 'sample'")
    read = Tasks.from_parquet if path.suffix == ".parquet" else Tasks.from_jsonl
    return read(str(path), split=split)


def limited(tasks: Tasks, *, seed: int, max_examples: int | None) -> Tasks:
    """The tasks in the order of the seed, and no more than `max_examples`."""
    if max_examples is not None and (type(max_examples) is not int or max_examples < 1):
        raise UsageError(f"max_examples is {max_examples!r}", "use a positive whole number, or None for all")
    return tasks.shuffled(seed)[:max_examples]

"""Tasks in Hugging Face datasets. Only this module imports `datasets`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import datasets
from datasets.exceptions import DatasetsError

from envweave.errors import TaskNotFoundError, UnavailableError, UsageError, describe
from envweave.tasks.rows import Rows

OFFLINE = "without the hub: pass a folder that `save_to_disk` wrote, a loaded Dataset, or use Tasks.from_jsonl"


class DatasetRows(Rows):
    """The rows of a `Dataset`, which reads them from disk and pickles by itself."""

    def __init__(self, dataset: Any, name: str, split: str) -> None:
        self.name = name
        self.split = split
        self._dataset = dataset.with_format(None)

    def __len__(self) -> int:
        return len(self._dataset)

    def row(self, position: int) -> dict[str, Any]:
        row: dict[str, Any] = self._dataset[position]
        return row

    def named(self) -> Iterator[tuple[Any, Any]]:
        columns = [self._column("id"), self._column("split")]
        return zip(*columns, strict=True)

    def _column(self, name: str) -> Any:
        if name not in self._dataset.column_names:
            return [None] * len(self)
        return self._dataset[name]


def dataset_rows(dataset: Any, split: str | None, revision: str | None, config: str | None) -> list[DatasetRows]:
    """The rows of each split that is wanted."""
    if split is not None and not split.replace("_", "").replace("-", "").replace(".", "").isalnum():
        raise UsageError(f"{split!r} is not the name of a split", "select from the tasks: tasks[:100]")
    name = "the dataset"
    if isinstance(dataset, str | os.PathLike):
        name = repr(os.fspath(dataset))
        dataset = _loaded(os.fspath(dataset), revision, config)
    elif revision is not None or config is not None:
        raise UsageError("revision and config of a dataset that is loaded already", "leave them out")
    if isinstance(dataset, datasets.DatasetDict):
        if split is not None and split not in dataset:
            hint = f"splits: {', '.join(map(repr, dataset))}"
            raise TaskNotFoundError(f"{name} has no split {split!r}", hint)
        chosen = list(dataset) if split is None else [split]
        return [DatasetRows(dataset[each], name, each) for each in chosen]
    if not isinstance(dataset, datasets.Dataset):
        hint = "pass a Dataset, a DatasetDict, a folder or a name; load a streamed one without streaming=True"
        raise UsageError(f"a {type(dataset).__name__} is not a dataset with a length", hint)
    own = str(dataset.split) if dataset.split is not None else ""
    if split is not None and own and split != own:
        raise TaskNotFoundError(f"{name} has no split {split!r}", f"splits: {own!r}")
    return [DatasetRows(dataset, name, split or own)]


def _loaded(path: str, revision: str | None, config: str | None) -> Any:
    """A folder that `save_to_disk` wrote, a folder of data files, or a dataset on the hub."""
    try:
        if any(os.path.isfile(os.path.join(path, mark)) for mark in ("dataset_dict.json", "state.json")):
            if revision is not None or config is not None:
                raise UsageError(f"revision and config of the folder {path!r}", "leave them out")
            return datasets.load_from_disk(path)
        return datasets.load_dataset(path, config, revision=revision)
    except (DatasetsError, OSError, ValueError) as error:  # not found, not reached, or without a config it needs
        message = f"the dataset {path!r} cannot be loaded: {' '.join(describe(error).split()):.300}"
        raise UnavailableError(message, OFFLINE) from error

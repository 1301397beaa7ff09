"""The problems of GSM8K."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from envweave.core.task import Task
from envweave.envs.datasets import dataset_tasks
from envweave.tasks.tasks import Tasks


@lru_cache(maxsize=8)
def gsm8k_tasks(dataset_path: str | None, split: str) -> Tasks:
    """The problems of a split, in the order of the data set. Rows have `question`, and `answer` with `#### value`."""
    rows = dataset_tasks(dataset_path, split=split, hub="openai/gsm8k", config="main", sample="gsm8k_sample.jsonl")
    return rows.map(_problem)


def _problem(row: Task) -> dict[str, Any]:
    solution, _, value = str(row["answer"]).rpartition("####")
    return {"prompt": row["question"], "answer": value.strip().replace(",", ""), "solution": solution.strip()}

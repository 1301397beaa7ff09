"""Lists of tasks: from a list, JSONL, parquet or Hugging Face `datasets`; by index, ID, split and seed."""

from envweave.core.task import Task
from envweave.tasks.tasks import Tasks

__all__ = ["Task", "Tasks"]

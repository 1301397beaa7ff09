"""Tasks of environments that run code: rows, budgets, submissions, hidden tests, and the text that a model sees."""

from envweave.envs.code_tasks.attempt import Attempt, Submission
from envweave.envs.code_tasks.row import CodeTask
from envweave.envs.code_tasks.sets import TaskSource, open_tasks

__all__ = ["Attempt", "CodeTask", "Submission", "TaskSource", "open_tasks"]

"""The REPL environment, for recursive language models: a large text as a variable, and code that works on it."""

from envweave.envs.repl.client import REPLEnv
from envweave.envs.repl.driver import RLMRun
from envweave.envs.repl.environment import REPLEnvironment
from envweave.envs.repl.rlm import run_rlm
from envweave.envs.repl.types import CodeBlockResult, REPLAction, REPLObservation, REPLState

__all__ = [
    "CodeBlockResult",
    "REPLAction",
    "REPLEnv",
    "REPLEnvironment",
    "REPLObservation",
    "REPLState",
    "RLMRun",
    "run_rlm",
]

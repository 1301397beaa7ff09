"""Actions, observations and state of the CodeAct environment."""

from __future__ import annotations

from dataclasses import dataclass, field

from envweave.envs.code import CodeAction
from envweave.sandbox import ExecutionResult
from envweave.types import Observation, State

__all__ = ["CodeAction", "CodeObservation", "CodeState"]


@dataclass
class CodeObservation(Observation):
    """The output of the code, and the value of its last expression or the exception."""

    execution_result: ExecutionResult = field(default_factory=ExecutionResult)


@dataclass
class CodeState(State):
    """The state of an episode."""

    variables: dict[str, str] = field(default_factory=dict)
    """The types of the variables, by name."""
    last_exit_code: int = 0

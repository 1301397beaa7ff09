"""What goes in and comes out of a CodeAct environment."""

from __future__ import annotations

from dataclasses import dataclass, field

from envweave.envs.code import CodeAction
from envweave.sandbox import ExecutionResult
from envweave.types import Observation, State

__all__ = ["CodeAction", "CodeObservation", "CodeState"]


@dataclass
class CodeObservation(Observation):
    """What the code did: its output, the value of its last expression, or what it raised."""

    execution_result: ExecutionResult = field(default_factory=ExecutionResult)


@dataclass
class CodeState(State):
    """Where an episode stands."""

    variables: dict[str, str] = field(default_factory=dict)
    """What the code has defined, by name, with its type."""
    last_exit_code: int = 0

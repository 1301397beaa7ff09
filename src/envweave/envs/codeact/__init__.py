"""CodeAct: an agent acts by writing Python, and its tools are functions."""

from envweave.envs.code import CodeAction
from envweave.envs.codeact.environment import (
    CodeActEnvironment,
    CodeObservation,
    CodeState,
    create_codeact_env,
    create_mcp_environment,
)
from envweave.sandbox import ExecutionResult

__all__ = [
    "CodeActEnvironment",
    "CodeAction",
    "CodeObservation",
    "CodeState",
    "ExecutionResult",
    "create_codeact_env",
    "create_mcp_environment",
]

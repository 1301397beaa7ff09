"""CodeAct: an agent acts by writing Python, and its tools are functions."""

from envweave.envs.codeact.environment import CodeActEnvironment, create_codeact_env, create_mcp_environment
from envweave.envs.codeact.types import CodeAction, CodeObservation, CodeState
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

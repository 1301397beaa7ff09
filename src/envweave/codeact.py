"""The names of `envweave.envs.codeact`, where its users look for them."""

from envweave.envs.codeact import (
    CodeActEnvironment,
    CodeAction,
    CodeObservation,
    CodeState,
    ExecutionResult,
    create_codeact_env,
    create_mcp_environment,
)

__all__ = [
    "CodeActEnvironment",
    "CodeAction",
    "CodeObservation",
    "CodeState",
    "ExecutionResult",
    "create_codeact_env",
    "create_mcp_environment",
]

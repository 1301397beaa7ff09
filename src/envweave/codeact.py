"""CodeAct in one place: the environment with its types, its tools, and the transforms that score it."""

from envweave.envs.codeact import (
    CodeActEnvironment,
    CodeAction,
    CodeObservation,
    CodeState,
    ExecutionResult,
    create_codeact_env,
    create_mcp_environment,
)
from envweave.rewards import (
    CodeQualityTransform,
    CodeSafetyTransform,
    CompositeTransform,
    MathProblemTransform,
    Transform,
    create_math_env_transform,
    create_safe_env_transform,
)
from envweave.tools import Tool, ToolRegistry

__all__ = [
    "CodeActEnvironment",
    "CodeAction",
    "CodeObservation",
    "CodeQualityTransform",
    "CodeSafetyTransform",
    "CodeState",
    "CompositeTransform",
    "ExecutionResult",
    "MathProblemTransform",
    "Tool",
    "ToolRegistry",
    "Transform",
    "create_codeact_env",
    "create_math_env_transform",
    "create_mcp_environment",
    "create_safe_env_transform",
]

"""envweave runs agentic RL environments: one string ID, one handle, the same behaviour everywhere."""

from typing import TYPE_CHECKING, Any

from envweave import errors
from envweave.core.environment import AsyncEnvironment, Environment
from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.core.spec import EnvSpec
from envweave.core.task import Task
from envweave.errors import EnvError, EnvWeaveError, InvalidActionError, UsageError
from envweave.plan import adapt
from envweave.registry.make import connect, make, register, registry, spec, unregister
from envweave.registry.vectors import make_vector
from envweave.requests import AutoresetReady, EpisodeEnd, LogEvent, NeedAction, Request, ToolCall
from envweave.results import ResetResult, StepResult
from envweave.tasks.tasks import Tasks
from envweave.types import Action, Observation, State
from envweave.vector.base import VectorEnv

if TYPE_CHECKING:
    from envweave import aio, examples
    from envweave.registry.rollouts import rollout
    from envweave.rollouts.trees import Branch
    from envweave.rollouts.values import values
    from envweave.tools.environment import ToolEnvironment, ToolObservation, tool

__version__ = "0.1.0"

__all__ = [
    "Action",
    "AsyncEnvHandle",
    "AsyncEnvironment",
    "AutoresetReady",
    "Branch",
    "EnvError",
    "EnvHandle",
    "EnvSpec",
    "EnvWeaveError",
    "Environment",
    "EpisodeEnd",
    "InvalidActionError",
    "LogEvent",
    "NeedAction",
    "Observation",
    "Request",
    "ResetResult",
    "State",
    "StepResult",
    "Task",
    "Tasks",
    "ToolCall",
    "ToolEnvironment",
    "ToolObservation",
    "UsageError",
    "VectorEnv",
    "adapt",
    "aio",
    "connect",
    "errors",
    "examples",
    "make",
    "make_vector",
    "register",
    "registry",
    "rollout",
    "spec",
    "tool",
    "unregister",
    "values",
]


_LAZY = {
    "Branch": "envweave.rollouts.trees",
    "ToolEnvironment": "envweave.tools.environment",
    "ToolObservation": "envweave.tools.environment",
    "rollout": "envweave.registry.rollouts",
    "tool": "envweave.tools.environment",
    "values": "envweave.rollouts.values",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("aio", "examples"):  # loaded when they are first used
        return importlib.import_module(f"envweave.{name}")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'envweave' has no attribute {name!r}")

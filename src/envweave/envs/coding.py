"""The coding environment, where actions are Python code, and its client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from envweave.client.env_client import EnvClient
from envweave.envs.code import CodeAction, CodeEnvironment
from envweave.envs.episode_session import Prelude
from envweave.envs.interpreter import MODULES, Interpreter
from envweave.envs.transcript import shown_error, shown_output
from envweave.errors import UsageError
from envweave.rewards import create_safe_env_transform
from envweave.sandbox import Limits
from envweave.types import Observation, State

__all__ = ["CodeAction", "CodeObservation", "CodeState", "CodingEnv", "CodingEnvironment"]


@dataclass
class CodeObservation(Observation):
    """The output of the code, with the value of its last expression as the last line."""

    stdout: str = ""
    stderr: str = ""
    """With the traceback, if the code raised."""
    exit_code: int = 0
    """0, 1 after an exception, or the code of `sys.exit`."""


@dataclass
class CodeState(State):
    """The state of an episode."""

    last_exit_code: int = 0


class CodingEnvironment(CodeEnvironment[CodeAction, CodeObservation]):
    """Each step runs code. Only the transform can end an episode.

    The reward is `transform`'s. The default is `create_safe_env_transform`: -1 for code that uses dangerous functions,
    -0.2 for code that does not parse, +0.1 for short code, once in an episode. With None, steps are not scored.
    `modules` are imported beforehand; `limits` and `sandbox` configure the isolation.
    """

    def __init__(
        self,
        *,
        transform: Callable[[Any], Any] | str | None = "safe",
        modules: Iterable[str] = MODULES,
        limits: Limits | Mapping[str, Any] | None = None,
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(transform, str):
            if transform != "safe":
                raise UsageError(f"there is no transform {transform!r}", "pass 'safe', None, or a callable")
            transform = create_safe_env_transform()
        super().__init__(Interpreter(limits=limits, modules=modules, sandbox=sandbox), transform, CodeState())

    def reset(self, *, seed: int | None = None, episode_id: str | None = None) -> CodeObservation:
        self._python.begin(seed=seed, prelude=Prelude())
        self._begin_episode(CodeState(episode_id=episode_id))
        return CodeObservation()

    def step(self, action: CodeAction) -> CodeObservation:
        result = self._ran(action)
        told = {"last_code": action.code, "success": result.success}
        told |= {} if result.limit is None else {"limit": result.limit.name}
        told |= {} if result.state == "kept" else {"state": result.state}
        seen = CodeObservation(
            stdout=shown_output(result),
            stderr=shown_error(result),
            exit_code=result.exit_code,
            metadata=told,
        )
        return self._scored(seen)

    @property
    def state(self) -> CodeState:
        state: CodeState = self._episode
        return replace(state)


class CodingEnv(EnvClient[CodeAction, CodeObservation, CodeState]):
    """The client that knows the coding environment's types."""

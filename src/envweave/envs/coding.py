"""The coding environment, where actions are Python code, and its client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from envweave.client.env_client import EnvClient
from envweave.core.task import Task
from envweave.envs.code import CodeAction, CodeEnvironment, shown_error, shown_output
from envweave.envs.code_tasks import TaskSource
from envweave.envs.interpreter import MODULES, Interpreter, Prelude
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
    """Each step runs code. A submission or the budget ends an episode with a task, the transform any other.

    The reward is `transform`'s. The default is `create_safe_env_transform`: -1 for code that uses dangerous functions,
    -0.2 for code that does not parse, +0.1 for short code, once in an episode. With None, steps are not scored.
    In an episode with a task, the reward is that of the submission, and the default transform is not applied. `tasks`
    are `Tasks`, rows, a `.jsonl` or `.parquet` file or `"programming"`; `max_steps` and `max_seconds` are the budget of
    an episode with a task. `modules` are imported beforehand; `limits` and `sandbox` configure the isolation.
    """

    def __init__(
        self,
        *,
        tasks: TaskSource | None = None,
        max_steps: int | None = None,
        max_seconds: float | None = None,
        transform: Callable[[Any], Any] | str | None = "safe",
        modules: Iterable[str] = MODULES,
        limits: Limits | Mapping[str, Any] | None = None,
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(transform, str):
            if transform != "safe":
                raise UsageError(f"there is no transform {transform!r}", "pass 'safe', None, or a callable")
            transform = create_safe_env_transform()
            self._default_transform: Any = transform
        else:
            self._default_transform = None
        super().__init__(
            Interpreter(limits=limits, modules=modules, sandbox=sandbox),
            transform,
            CodeState(),
            tasks=tasks,
            max_steps=max_steps,
            max_seconds=max_seconds,
        )

    def reset(
        self, *, seed: int | None = None, episode_id: str | None = None, task: Task | None = None
    ) -> CodeObservation:
        attempt = self._attempt_at(task, seed)
        self._begin(CodeState(episode_id=episode_id), Prelude(), seed=seed, attempt=attempt)
        return CodeObservation(metadata=self._briefing())

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
        return self._judged(seen, result)

    def to_messages(self, observation: CodeObservation) -> str:
        return self._messages(observation, observation.stdout, observation.stderr)

    def _transform_of_step(self) -> Callable[[Any], Any] | None:
        with_task = self._attempt is not None and self.transform is self._default_transform
        return None if with_task else self.transform

    @property
    def state(self) -> CodeState:
        state: CodeState = self._episode
        return replace(state)


class CodingEnv(EnvClient[CodeAction, CodeObservation, CodeState]):
    """The client that knows the coding environment's types."""

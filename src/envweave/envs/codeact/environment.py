"""The CodeAct environment: actions are Python code that runs in a sandboxed session and calls tools as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from envweave.core.lookup import load
from envweave.core.task import Task
from envweave.envs.code import CodeAction, CodeEnvironment, shown_error, shown_output
from envweave.envs.code_tasks import TaskSource
from envweave.envs.codeact.files import SOURCE as FILES
from envweave.envs.codeact.files import file_tools
from envweave.envs.interpreter import MODULES, Interpreter, Prelude
from envweave.envs.shared import Share
from envweave.sandbox import ExecutionResult, Limits
from envweave.tools import ToolRegistry
from envweave.tools.registry import Tools, registry_of
from envweave.types import Observation, State


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


class CodeActEnvironment(CodeEnvironment[CodeAction, CodeObservation]):
    """Each step runs code. An exception is an observation; the reward is that of `transform`.

    `tools` are functions that the code calls by name. They run outside of the sandbox, and so do those of the MCP
    `servers`. `files=True` adds tools for the episode's folder. `modules` are imported beforehand; `limits` bound each
    run, and `sandbox` has options of `envweave.sandbox.Sandbox`.

    `tasks` are `Tasks`, rows, a `.jsonl` or `.parquet` file or `"programming"`. An episode with a task ends with a
    submission or with its budget, `max_steps` and `max_seconds`. Any other ends only by the transform, as that of
    `MathProblemTransform` at the answer.
    """

    OPERATOR_OPTIONS: ClassVar[frozenset[str]] = CodeEnvironment.OPERATOR_OPTIONS | {"servers"}

    def __init__(
        self,
        *,
        tools: Tools | None = None,
        servers: Any = None,
        files: bool = False,
        tasks: TaskSource | None = None,
        max_steps: int | None = None,
        max_seconds: float | None = None,
        transform: Callable[[Any], Any] | None = None,
        modules: Iterable[str] = MODULES,
        limits: Limits | Mapping[str, Any] | None = None,
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            Interpreter(limits=limits, modules=modules, sandbox=sandbox),
            transform,
            CodeState(),
            tasks=tasks,
            max_steps=max_steps,
            max_seconds=max_seconds,
        )
        self._given = registry_of(tools)
        self._files = files
        self._servers: Share[Any] | None = None
        if servers is not None:
            self._servers = Share.new(load("envweave.tools.mcp:connect_mcp", extra="mcp")(servers))
        self.tools = self._all_tools()

    def reset(
        self, *, seed: int | None = None, episode_id: str | None = None, task: Task | None = None
    ) -> CodeObservation:
        attempt = self._attempt_at(task, seed)
        source = "\n".join(dict.fromkeys(tool.source for tool in self.tools if tool.source))
        self._begin(CodeState(episode_id=episode_id), Prelude(source), seed=seed, attempt=attempt)
        return CodeObservation(metadata=self._briefing(self.tools))

    def step(self, action: CodeAction) -> CodeObservation:
        """Run code. The first step begins an episode if `reset` was not called; a handle requires `reset`."""
        if not self._python.begun:
            self.reset()
        result = self._ran(action)
        seen = CodeObservation(execution_result=result, metadata={"last_code": action.code})
        return self._judged(seen, result)

    def to_messages(self, observation: CodeObservation) -> str:
        result = observation.execution_result
        return self._messages(observation, shown_output(result), shown_error(result), self.tools)

    @property
    def state(self) -> CodeState:
        variables = self._python.variables() if self._python.begun else {}
        state: CodeState = replace(self._episode, variables=variables)
        return state

    def fork(self) -> CodeActEnvironment:
        twin = super().fork()
        own = {tool.name: tool for tool in file_tools(twin._python)}  # for the folder of the twin
        twin.tools = ToolRegistry([own[tool.name] if tool.source == FILES else tool for tool in self.tools])
        return twin

    def _detach_from(self, original: CodeActEnvironment) -> None:
        self._servers = None if original._servers is None else original._servers.again()

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._servers is not None:
                self._servers.release()

    def _all_tools(self) -> ToolRegistry:
        """The given tools, those of the servers, and those for files, which belong to this interpreter."""
        served = self._servers.resource.registry if self._servers is not None else ()
        return ToolRegistry([*self._given, *served, *(file_tools(self._python) if self._files else ())])

    def _functions(self) -> dict[str, Callable[..., Any]]:
        """The tools that run outside of the sandbox."""
        inside = {tool.name for tool in self.tools if tool.source}
        return {name: call for name, call in self.tools.functions().items() if name not in inside}


def create_codeact_env(**options: Any) -> CodeActEnvironment:
    """A CodeAct environment in this process; `options` are those of `CodeActEnvironment`."""
    return CodeActEnvironment(**options)


def create_mcp_environment(servers: Any = None, **options: Any) -> CodeActEnvironment:
    """A CodeAct environment with the tools of MCP servers; without any, with the built-in tools for files.

    `servers` is the configuration of MCP clients, by name: `{"command": …, "args": […]}` or `{"url": …}`.
    """
    return CodeActEnvironment(servers=servers, **{"files": servers is None, **options})

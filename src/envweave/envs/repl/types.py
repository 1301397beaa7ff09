"""Actions, observations and state of the REPL environment, with OpenEnv's fields."""

from __future__ import annotations

from dataclasses import dataclass, field

from envweave.envs.code import EXAMPLES
from envweave.types import Action, Observation, State


@dataclass
class REPLAction(Action):
    """Run Python code, or submit the final answer.

    Inside, `context` is the text to work on. `llm_query(prompt)` and `llm_query_batched(prompts)` ask a language model,
    `rlm_query(prompt)` has one work on the prompt in a REPL of its own. `FINAL(value)`, `FINAL_VAR("name")` or
    `answer["ready"] = True` give the final answer.
    """

    code: str = field(default="", metadata={"examples": [*EXAMPLES, "FINAL(x)"]})
    is_final: bool = False
    """If true, no code runs, and `final_answer` is the answer."""
    final_answer: str | None = None


@dataclass
class CodeBlockResult:
    """The result of running code."""

    stdout: str = ""
    stderr: str = ""
    locals_snapshot: dict[str, str] = field(default_factory=dict)
    """The variables afterwards, by name, each as a short `repr`."""
    execution_time: float = field(default=0.0, compare=False)
    """Seconds."""
    success: bool = True
    exception: str | None = None


@dataclass
class REPLObservation(Observation):
    """The result of the code, and what it can use."""

    result: CodeBlockResult = field(default_factory=CodeBlockResult)
    context_preview: str | None = None
    """The beginning of the context."""
    context_length: int = 0
    """Characters."""
    available_variables: list[str] = field(default_factory=list)
    iteration: int = 0
    max_iterations: int = 30


@dataclass
class REPLState(State):
    """The state of an episode, with the whole context."""

    context: str | None = None
    task_prompt: str | None = None
    iteration: int = 0
    max_iterations: int = 30
    namespace_keys: list[str] = field(default_factory=list)
    final_answer: str | None = None
    total_execution_time: float = field(default=0.0, compare=False)

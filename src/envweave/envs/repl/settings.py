"""The options of the REPL, checked by pydantic, with defaults from OpenEnv's variables; the reward of an answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Annotated, Any, ClassVar

from envweave.core.return_values import read_reward
from envweave.core.schema import NonNegativeInt, PositiveInt, Text, adapter, between, explain
from envweave.errors import EnvError, UsageError, describe
from envweave.rewards.grader import grade

Metric = Callable[[str, str], float | None]
"""From the expected and the given answer to a part of `reward_on_success`: 1.0 is all of it, None is "not scored"."""
Iterations = Annotated[int, between(1, 10_000)]
Depth = Annotated[int, between(0, 8)]

_VARIABLES = {
    "max_iterations": "REPL_MAX_ITERATIONS",
    "max_output_length": "REPL_MAX_OUTPUT_LENGTH",
    "context_preview_length": "REPL_CONTEXT_PREVIEW_LENGTH",
    "rlm_max_depth": "REPL_RLM_MAX_DEPTH",
    "rlm_max_iterations": "REPL_RLM_MAX_ITERATIONS",
    "rlm_max_children": "REPL_RLM_MAX_CHILDREN",
}
_BOUNDS = ("max_iterations", "rlm_max_depth", "rlm_max_iterations")
_MOST_BITS = 400_000


def correctness(expected: str, answer: str) -> float | None:
    """1.0 for a right answer, 0.0 for a wrong one, by `envweave.rewards.grader`; None if that cannot be decided."""
    return grade(answer, expected).score


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of `REPLEnvironment`, apart from those of its sandbox. An episode may replace some of them."""

    __pydantic_config__: ClassVar[Any] = {"strict": True, "allow_inf_nan": False, "revalidate_instances": "always"}

    context: Text = ""
    task_prompt: Text = ""
    max_iterations: Iterations = 30
    is_bound: bool = False
    """Whether an episode may not ask for more iterations."""
    max_output_length: PositiveInt = 8192
    context_preview_length: NonNegativeInt = 500
    reward_on_success: float | None = None
    """None is 1.0 for a right answer, and leaves an answer without an expected one unscored. A number pays for it."""
    reward_on_iteration: float = 0.0
    """Each step that is not the last."""
    reward_on_failure: float = -0.1
    """There are no iterations left."""
    reward_on_error: float = -0.05
    """A step whose code failed."""
    metric: Metric = correctness
    llm_query_fn: Callable[..., Any] | None = None
    llm_batch_fn: Callable[..., Any] | None = None
    llm_chat_fn: Callable[..., Any] | None = None
    llm_model: Text | None = None
    rlm_max_depth: Depth = 2
    rlm_max_iterations: Iterations = 30
    rlm_max_children: NonNegativeInt = 64
    rlm_child_timeout_s: float = 300.0

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ, **given: Any) -> Settings:
        """Checked options. One that is None is read from its variable, if it has one. Raises `UsageError`."""
        for name, variable in _VARIABLES.items():
            if given.get(name) is None:
                given.pop(name, None)
                if text := environ.get(variable, "").strip():
                    given[name] = _whole_number(variable, text)
        for name in ("context", "task_prompt"):
            if given.get(name) is None:
                given[name] = environ.get(f"REPL_{name.upper()}", "")
        return cls(**given, is_bound="max_iterations" in given)._checked()

    def for_episode(self, **asked: Any) -> Settings:
        """Those of an episode. Raises `UsageError` if it asks for more than the bounds."""
        chosen = replace(self, **{name: value for name, value in asked.items() if value is not None})._checked()
        for name in _BOUNDS:
            value, bound = getattr(chosen, name), getattr(self, name)
            if value > bound and (self.is_bound or name != "max_iterations"):
                raise UsageError(
                    f"{name} is {value}, and the maximum here is {bound}", "make the REPL with a higher one"
                )
        return chosen

    def for_task(self) -> Settings:
        """Those of an episode with a task, in which only the answer is scored."""
        return replace(self, reward_on_iteration=0.0, reward_on_failure=0.0, reward_on_error=0.0)

    def iterations_for(self, of_task: int | None, asked: Any) -> Any:
        """How many iterations an episode with a task asks for: no more than the task and the environment allow."""
        bounds = [bound for bound in (of_task, self.max_iterations if self.is_bound else None) if bound is not None]
        if type(asked) is int:
            bounds.append(asked)
        return min(bounds) if bounds else asked

    def _checked(self) -> Settings:
        try:
            checked: Settings = adapter(Settings).validate_python(self)
        except ValueError as error:
            raise UsageError(f"invalid option of the REPL: {explain(error)}") from None
        return checked

    def reward_of(self, answer: str, expected: str | None) -> tuple[float | None, dict[str, Any]]:
        """The reward and more metadata: if the metric raises, the answer is not scored, with the reason."""
        if expected is None:
            return self.reward_on_success, {}
        try:
            score = read_reward(self.metric(expected, answer))
        except Exception as error:  # a user's metric may raise anything
            return None, {"error": EnvError(f"metric raised {describe(error)}").to_data()}
        whole = 1.0 if self.reward_on_success is None else self.reward_on_success
        return None if score is None else whole * score, {}


OPTIONS = frozenset(each.name for each in fields(Settings)) - {"is_bound", "llm_model"}
"""The names of the options with which a REPL is made."""


def refuse_beside_task(**given: Any) -> None:
    """Raise `UsageError` for an option of `reset` whose value comes from the task."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} is given beside a task, which has its own", "pass one of them")


def _whole_number(variable: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{variable} is {text!r:.100}", "it must be a whole number")
    return int(text)


def expected_text(expected: Any) -> str | None:
    """The expected answer as text; None if it is empty."""
    if expected is None or isinstance(expected, str):
        return None if expected is None or not expected.strip() else expected
    if isinstance(expected, bool | float):
        return str(expected)
    if isinstance(expected, int) and expected.bit_length() <= _MOST_BITS:
        return f"{Decimal(expected):f}"  # `str` refuses more than 4,300 digits
    raise UsageError(f"expected_answer is a {type(expected).__name__}", "it must be text or a number")

"""The base of environments whose actions are code: a Python interpreter that can be forked, and a transform.

A subclass has `reset`, `step` and `state`, keeps its data on the episode in `_episode`, and may override `_functions`.
With a task, an episode has a budget and ends with a submission; the task is kept apart from `_episode`, which may be
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

from envweave.core.environment import Environment
from envweave.core.selection import choose
from envweave.core.task import Task
from envweave.core.transform import check_transform, scored
from envweave.envs.code_tasks import Attempt, CodeTask, Submission, TaskSource, open_tasks
from envweave.envs.code_tasks.attempt import checked_budget
from envweave.envs.code_tasks.messages import SYSTEM_PROMPT, first_text, step_text
from envweave.envs.interpreter import Interpreter, ParkedSession, Prelude
from envweave.errors import InvalidActionError, ResetNeededError, UsageError
from envweave.rewards.observation import member, metadata_of
from envweave.rewards.transforms import STYLE_PAID
from envweave.sandbox import ExecutionResult, LimitHit
from envweave.tools import Tool
from envweave.types import Action, Observation

EXAMPLES = ("x = random.random()", "print(x)", "x * 2", "[len(word) for word in 'a bc def'.split()]", "1 / 0", "def")
"""Code for a random policy."""

_AFTERWARDS = {
    "restarted": "the interpreter was restarted: variables are lost, files are kept",
    "rolled_back": "variables and files are as they were before this code",
    "ended": "the interpreter has ended",
}

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT", bound=Observation)


@dataclass
class CodeAction(Action):
    """Run Python code. Variables, functions, imports and files last until the end of the episode."""

    code: str = field(metadata={"examples": list(EXAMPLES)})


@dataclass(frozen=True)
class CodeSnapshot:
    """The interpreter and the environment's data on the episode."""

    python: ParkedSession
    episode: Any
    is_over: bool = False
    paid: Mapping[str, Any] = field(default_factory=dict)
    attempt: Attempt | None = field(default=None, repr=False)


class CodeEnvironment(Environment[ActT, ObsT]):
    """Sync, one call at a time. Closed soon after it is garbage-collected, if not before."""

    system_prompt: ClassVar[str] = SYSTEM_PROMPT
    applies_transform: ClassVar[bool] = True
    OPERATOR_OPTIONS: ClassVar[frozenset[str]] = frozenset({"limits", "modules", "sandbox", "tasks"})

    def __init__(
        self,
        python: Interpreter,
        transform: Callable[[Any], Any] | None,
        episode: Any,
        *,
        tasks: TaskSource | None = None,
        max_steps: int | None = None,
        max_seconds: float | None = None,
    ) -> None:
        check_transform(transform)
        self._budget = checked_budget(max_steps, max_seconds)
        self.tasks = open_tasks(tasks)
        self.transform = transform
        self._python = python
        self._episode = episode
        """A dataclass that is never changed in place."""
        self._is_over = False
        self._paid: Mapping[str, Any] = {}
        """What style has earned in this episode, for the transform."""
        self._attempt: Attempt | None = None
        """None in an episode without a task."""
        self._submission = Submission()

    def _functions(self) -> dict[str, Callable[..., Any]]:
        """The functions outside of the sandbox that the code can call, by name."""
        return {}

    def _task_tools(self, attempt: Attempt | None, submission: Submission) -> list[Tool]:
        """What the code has for a task, beside `_functions`."""
        return [] if attempt is None else [submission.tool(attempt.task)]

    def _begin(self, episode: Any, prelude: Prelude, *, seed: int | None, attempt: Attempt | None) -> None:
        """Begin an episode. If that fails, the last one goes on."""
        submission = Submission()
        taken = self._functions()
        for tool in self._task_tools(attempt, submission):
            if tool.name in taken:
                raise UsageError(f"there is a tool {tool.name!r} already", "with tasks, choose another name for it")
        functions = self._live_functions(attempt, submission)
        limits = None if attempt is None else attempt.task.limits
        if limits is not None:  # the time of a task is for the agent's code, not for the prelude
            limits = replace(limits, wall=self._python.limits.wall)
        self._python.begin(seed=seed, tools=functions, prelude=prelude, limits=limits)
        self._attempt, self._submission = attempt, submission
        self._begin_episode(episode)

    def _briefing(self, tools: Iterable[Tool] = ()) -> dict[str, Any]:
        """The metadata of the first observation: what the agent must know of the task; nothing without one."""
        attempt = self._attempt
        if attempt is None:
            return {}
        schemas = [tool.schema() for tool in (*tools, *self._task_tools(attempt, self._submission))]
        return {"prompt": attempt.task.prompt, "tools": schemas, "remaining": attempt.remaining}

    def _messages(self, seen: Observation, output: str, error: str, tools: Iterable[Tool] = ()) -> str:
        """An observation as a language model sees it."""
        told = seen.metadata
        if "last_code" in told:
            return step_text(output, error, told)
        own = self._task_tools(self._attempt, self._submission)
        return first_text(told.get("prompt", ""), (*tools, *own), told.get("remaining", {}))

    def _attempt_at(self, task: Any, seed: int | None) -> Attempt | None:
        """The attempt of a new episode. A handle has selected the task; without one, it is selected here."""
        if self.tasks is not None:
            task, _ = choose(self.tasks, task, seed, None)
        if task is None:
            return None
        if not isinstance(task, Mapping):
            raise UsageError(f"the task is {task!r:.80}", "pass a mapping, or make the environment with tasks=…")
        read = CodeTask.read(task if isinstance(task, Task) else Task(task), self._python.limits)
        return Attempt.at(read, *self._budget)

    def _begin_episode(self, episode: Any) -> None:
        self._episode, self._is_over, self._paid = episode, False, {}

    def _check_running(self) -> None:
        """Raise `ResetNeededError` if the episode is over, so that no answer is given twice."""
        if self._is_over:
            raise ResetNeededError("the episode is over", "call env.reset() first")

    def _transform_of_step(self) -> Callable[[Any], Any] | None:
        return self.transform

    def _scored(self, seen: ObsT) -> ObsT:
        """Apply the transform to what a step returns. It may end the episode."""
        seen = scored(self._transform_of_step(), replace(seen, metadata={**seen.metadata, **self._paid}))
        self._is_over = bool(member(seen, "done"))
        self._paid = {name: value for name, value in metadata_of(seen).items() if name == STYLE_PAID}
        return seen

    def _ran(self, action: CodeAction) -> ExecutionResult:
        """Run the code of a step. `_episode` must have `step_count` and `last_exit_code`, which are updated."""
        self._check_running()
        code = _code_of(action)
        self._submission.begin_run()
        result = self._python.run(code, self._timeout)
        result.limit = self._count_run(result.duration, result.limit)
        count = self._episode.step_count + 1
        self._episode = replace(self._episode, step_count=count, last_exit_code=result.exit_code)
        return result

    @property
    def _wall(self) -> float | None:
        """The time of a run by the limits of the task, or else of the environment."""
        limits = None if self._attempt is None else self._attempt.task.limits
        return self._python.session_limits.wall if limits is None else limits.wall

    @property
    def _timeout(self) -> float | None:
        """The time of the next run."""
        return min((seconds for seconds in (self._wall, self._seconds_left) if seconds is not None), default=None)

    @property
    def _seconds_left(self) -> float | None:
        return None if self._attempt is None else self._attempt.seconds_left

    def _count_run(self, seconds: float, hit: LimitHit | None = None) -> LimitHit | None:
        """Charge a run to the budget. Returns the limit that it exceeded, by the name that the agent knows."""
        if self._attempt is None:
            return hit
        left, wall = self._attempt.seconds_left, self._wall
        if hit is not None and hit.name == "wall" and left is not None and (wall is None or left < wall):
            hit, seconds = LimitHit("max_seconds", left), max(left, seconds)
        self._attempt = self._attempt.after_run(seconds)
        return hit

    def _judged(self, seen: ObsT, result: ExecutionResult) -> ObsT:
        """The observation of a step with its reward, which with a task is that of the submission."""
        attempt = self._attempt
        if attempt is None:
            return self._scored(seen)
        told: dict[str, Any] = {"remaining": attempt.remaining}
        told |= {} if result.limit is None else {"limit": result.limit.name}
        reward: float | None = 0.0
        done = attempt.is_spent
        submitted = self._submission.take()
        if submitted is not None and result.success:
            done = True
            reward, grading = self._grade(attempt, submitted)
            told |= grading
        elif submitted is not None:
            told["submission"] = "not taken, because the code did not run to its end without an exception"
        if done and (submitted is None or not result.success):
            told["truncated"] = True
        return self._scored(replace(seen, reward=reward, done=done, metadata={**seen.metadata, **told}))

    def _grade(self, attempt: Attempt, submitted: tuple[Any, ...]) -> tuple[float | None, dict[str, Any]]:
        if attempt.task.tests:
            return attempt.grade_tests(self._python.session, self._wall)
        return attempt.grade_answer(submitted[0])

    def snapshot(self) -> CodeSnapshot:
        return CodeSnapshot(self._python.snapshot(), self._episode, self._is_over, self._paid, self._attempt)

    def restore(self, snapshot: CodeSnapshot) -> None:
        submission = Submission()
        self._python.resume(snapshot.python, self._live_functions(snapshot.attempt, submission))
        self._episode, self._is_over, self._paid = snapshot.episode, snapshot.is_over, snapshot.paid
        self._attempt, self._submission = snapshot.attempt, submission

    def _live_functions(self, attempt: Attempt | None, submission: Submission) -> dict[str, Callable[..., Any]]:
        own = {tool.name: tool.as_function() for tool in self._task_tools(attempt, submission)}
        return {**self._functions(), **own}

    def fork(self) -> Self:
        """A second environment at the same point of the same episode, with the same live Python."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._submission = Submission()
        twin._detach_from(self)
        twin._python = self._python.fork(twin._live_functions(twin._attempt, twin._submission))
        return twin

    def _detach_from(self, original: Self) -> None:
        """In a copy: replace what the two must not share."""

    def __reduce__(self) -> Any:
        raise TypeError("live Python cannot leave its process")

    def close(self) -> None:
        self._python.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _code_of(action: Any) -> str:
    code = getattr(action, "code", None)
    if not isinstance(code, str):
        hint = "write env.step(CodeAction(code='…')); a handle, as of ew.make, takes plain data too"
        raise InvalidActionError(f"the action is {action!r:.80}", hint)
    return code


def shown_output(result: ExecutionResult) -> str:
    """Stdout, followed by the value of the last expression."""
    if result.return_value is None:
        return result.stdout
    value = repr(result.return_value) if result.return_is_data else str(result.return_value)
    gap = "" if not result.stdout or result.stdout.endswith("\n") else "\n"
    return f"{result.stdout}{gap}{value}\n"


def shown_error(result: ExecutionResult) -> str:
    """Stderr, the traceback, and what happened to the interpreter."""
    parts = [result.stderr]
    if result.exception is not None:
        parts.append(result.exception.traceback or str(result.exception))
        if result.limit is not None:
            parts.append(str(result.exception))
    if result.state in _AFTERWARDS:
        parts.append(_AFTERWARDS[result.state])
    said = [part if part.endswith("\n") else f"{part}\n" for part in dict.fromkeys(parts) if part]
    return "".join(said)

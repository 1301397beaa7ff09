"""The REPL environment of recursive language models: Python code works on a large text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from envweave.chat.formats import text_of
from envweave.core.handle import EnvHandle
from envweave.core.task import Task
from envweave.core.transform import check_transform
from envweave.envs.code import CodeEnvironment, CodeSnapshot
from envweave.envs.code_tasks import Attempt, Submission, TaskSource
from envweave.envs.code_tasks.messages import budget_text
from envweave.envs.interpreter import MODULES, Interpreter, Prelude, checked_seed
from envweave.envs.repl.blocks import FinalAnswer, run_block
from envweave.envs.repl.driver import NUDGE, SYSTEM_PROMPT, actions_in, first_prompt, outcome_prompt
from envweave.envs.repl.llm_backends import Query
from envweave.envs.repl.llm_functions import LLMFunctions, RecursionLevel
from envweave.envs.repl.settings import OPTIONS, Metric, Settings, correctness, expected_text, refuse_beside_task
from envweave.envs.repl.types import CodeBlockResult, REPLAction, REPLObservation, REPLState
from envweave.errors import InvalidActionError, ResetNeededError
from envweave.lm.messages import Message
from envweave.plan import adapt
from envweave.sandbox import Limits
from envweave.tools import Tool

LIMITS = Limits(memory_bytes=1 << 30, return_bytes=1 << 20, tool_wall=900.0)
"""Enough for a context of some hundred megabytes and for slow language models."""

_INSIDE = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Episode:
    """The environment's data on an episode."""

    settings: Settings
    expected: str | None
    id: str | None
    iteration: int = 0
    names: tuple[str, ...] = ("context", "answer")
    answer: str | None = None
    seconds: float = 0.0


class REPLEnvironment(CodeEnvironment[REPLAction, REPLObservation]):
    """Code works on `context` until it gives an answer, or the iterations run out.

    `llm_query_fn(prompt)`, `llm_batch_fn(prompts)` and `llm_chat_fn(messages)` answer `llm_query` and `rlm_query`; each
    may also take `model`. Without them, the caller's `hf_token` or the variables of the process select a language
    model (`envweave.lm`). `metric(expected, answer)` scores an answer if the expected one is known. Otherwise the
    answer is not scored, or earns `reward_on_success` if that is set. `tasks` are `Tasks`, rows or a `.jsonl` or
    `.parquet` file; in an episode with a task, only the answer is scored. The `rlm_…` options bound `rlm_query`. The
    default of an option that is None is read from OpenEnv's variables (`REPL_MAX_ITERATIONS`, …).
    """

    MESSAGE_BYTES: ClassVar[int] = 256 * 2**20
    system_prompt: ClassVar[str] = SYSTEM_PROMPT

    def __init__(
        self,
        *,
        tasks: TaskSource | None = None,
        max_seconds: float | None = None,
        context: str | None = None,
        task_prompt: str | None = None,
        max_iterations: int | None = None,
        max_output_length: int | None = None,
        context_preview_length: int | None = None,
        reward_on_success: float | None = None,
        reward_on_iteration: float = 0.0,
        reward_on_failure: float = -0.1,
        reward_on_error: float = -0.05,
        metric: Metric = correctness,
        transform: Callable[[Any], Any] | None = None,
        llm_query_fn: Query | None = None,
        llm_batch_fn: Query | None = None,
        llm_chat_fn: Query | None = None,
        rlm_max_depth: int | None = None,
        rlm_max_iterations: int | None = None,
        rlm_max_children: int | None = None,
        rlm_child_timeout_s: float = 300.0,
        modules: Iterable[str] = MODULES,
        limits: Limits | Mapping[str, Any] | None = LIMITS,
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        check_transform(transform)
        self._settings = Settings.read(**{name: value for name, value in locals().items() if name in OPTIONS})
        sandbox_options: dict[str, Any] = {"modules": modules, "limits": limits, "sandbox": sandbox}
        super().__init__(Interpreter(**sandbox_options), transform, None, tasks=tasks, max_seconds=max_seconds)
        self._llm = LLMFunctions(partial(_child_repl, sandbox_options))
        self._final = FinalAnswer()

    def reset(
        self,
        *,
        seed: int | None = None,
        episode_id: str | None = None,
        task: Task | None = None,
        context: str | None = None,
        task_prompt: str | None = None,
        max_iterations: int | None = None,
        expected_answer: str | float | None = None,
        hf_token: str | None = None,
        llm_model: str | None = None,
        rlm_max_depth: int | None = None,
        rlm_max_iterations: int | None = None,
    ) -> REPLObservation:
        seed = checked_seed(seed)
        attempt = self._attempt_at(task, seed)
        if attempt is not None:
            own = attempt.task
            refuse_beside_task(context=context, task_prompt=task_prompt, expected_answer=expected_answer)
            context, task_prompt = own.context or None, own.prompt
            max_iterations = self._settings.iterations_for(own.max_steps, max_iterations)
        settings = self._settings.for_episode(
            context=context,
            task_prompt=task_prompt,
            max_iterations=max_iterations,
            llm_model=llm_model,
            rlm_max_depth=rlm_max_depth,
            rlm_max_iterations=rlm_max_iterations,
        )
        if attempt is not None:
            settings = settings.for_task()
            attempt = replace(attempt, max_steps=settings.max_iterations)
        expected = expected_text(expected_answer) if attempt is None else _answer_text(attempt.task.answer)
        episode = Episode(settings, expected, episode_id)
        self._llm.begin(settings, hf_token)
        values = {"context": settings.context, "answer": {"content": "", "ready": False}}
        self._begin(episode, Prelude(_INSIDE, values), seed=seed, attempt=attempt)
        told = {"task_prompt": settings.task_prompt, **self._briefing()}
        return self._seen(CodeBlockResult(stdout=_greeting(settings, attempt)), metadata=told)

    def step(self, action: REPLAction) -> REPLObservation:
        episode: Episode | None = self._episode
        if episode is None:
            raise ResetNeededError("there is no episode yet", "call env.reset() first")
        self._check_running()
        if action.is_final:
            self._episode = replace(episode, iteration=episode.iteration + 1)
            self._count_run(0.0)
            block = CodeBlockResult(stdout="The answer was submitted.")
            return self._answered(action.final_answer or "", block, last_code="")
        settings = episode.settings
        last = episode.iteration + 1 >= settings.max_iterations
        ran = run_block(
            self._python,
            self._final,
            action.code,
            last=last,
            longest=settings.max_output_length,
            timeout=self._timeout,
        )
        limit = self._count_run(ran.result.execution_time, ran.limit)
        self._episode = replace(
            episode,
            iteration=episode.iteration + 1,
            names=tuple(ran.result.locals_snapshot),
            seconds=episode.seconds + ran.result.execution_time,
            answer=ran.left,
        )
        told: dict[str, Any] = {"last_code": action.code} | ({} if limit is None else {"limit": limit.name})
        if ran.answer is not None:
            return self._answered(ran.answer, ran.result, **told)
        if last or self._seconds_left == 0.0:  # the content of `answer` is kept, but earns nothing
            told |= {"truncated": True, "final_answer": ran.left}
            return self._told(ran.result, settings.reward_on_failure, done=True, **told)
        reward = settings.reward_on_iteration if ran.result.success else settings.reward_on_error
        return self._told(ran.result, reward, final_answer=None, **told)

    def to_messages(self, observation: REPLObservation) -> str:
        left = {
            "steps": observation.max_iterations - observation.iteration,
            **observation.metadata.get("remaining", {}),
        }
        if "last_code" in observation.metadata:
            text = outcome_prompt([observation], last=left["steps"] <= 1)
        else:
            text = first_prompt(_task_text(observation.metadata["task_prompt"], self._attempt), observation)
        return f"{text}\n\n{budget_text(left)}"

    def read_reply(self, message: Message) -> REPLAction:
        """The code of all blocks of a reply, or the answer that it gives without any."""
        actions = actions_in(text_of(message))
        if not actions:
            raise InvalidActionError("the reply has no code and no answer", NUDGE)
        return actions[0] if len(actions) == 1 else REPLAction(code="\n".join(each.code for each in actions))

    @property
    def state(self) -> REPLState:
        """Before the first reset, the state of an empty session."""
        episode: Episode | None = self._episode
        if episode is None:
            return REPLState(max_iterations=self._settings.max_iterations)
        return REPLState(
            episode_id=episode.id,
            step_count=episode.iteration,
            context=episode.settings.context,
            task_prompt=episode.settings.task_prompt,
            iteration=episode.iteration,
            max_iterations=episode.settings.max_iterations,
            namespace_keys=list(episode.names),
            final_answer=episode.answer,
            total_execution_time=episode.seconds,
        )

    def snapshot(self) -> CodeSnapshot:
        """With the backend of the LLM functions, so that another environment can restore it."""
        moment = super().snapshot()
        return replace(moment, episode=(moment.episode, self._llm.fork()))

    def restore(self, snapshot: CodeSnapshot) -> None:
        episode, llm = snapshot.episode
        old, self._llm = self._llm, self._llm.like(llm)
        try:
            super().restore(replace(snapshot, episode=episode))
        except BaseException:
            old, self._llm = self._llm, old
            raise
        finally:
            old.end()

    def _detach_from(self, original: REPLEnvironment) -> None:
        self._final, self._llm = FinalAnswer(), original._llm.fork()

    def close(self) -> None:
        self._llm.end()
        super().close()

    def _functions(self) -> dict[str, Callable[..., Any]]:
        return {**self._llm.functions(), "_submit_final_answer": self._final.give}

    def _task_tools(self, attempt: Attempt | None, submission: Submission) -> list[Tool]:
        """None: `FINAL` is the submission."""
        return []

    def _answered(self, answer: str, block: CodeBlockResult, **told: Any) -> REPLObservation:
        episode: Episode = replace(self._episode, answer=answer)
        self._episode = episode
        attempt = self._attempt
        reward: float | None
        if attempt is not None and attempt.task.tests:
            reward, why = attempt.grade_tests(self._python.session, self._wall)
        else:
            reward, why = episode.settings.reward_of(answer, episode.expected)
        return self._told(block, reward, done=True, final_answer=answer, **told, **why)

    def _told(
        self, block: CodeBlockResult, reward: float | None, *, done: bool = False, **told: Any
    ) -> REPLObservation:
        metadata = {"task_prompt": self._episode.settings.task_prompt, **told}
        metadata |= {} if self._attempt is None else {"remaining": self._attempt.remaining}
        return self._scored(self._seen(block, reward=reward, done=done, metadata=metadata))

    def _seen(self, block: CodeBlockResult, **scores: Any) -> REPLObservation:
        episode: Episode = self._episode
        settings = episode.settings
        return REPLObservation(
            result=block,
            context_preview=settings.context[: settings.context_preview_length] or None,
            context_length=len(settings.context),
            available_variables=list(episode.names),
            iteration=episode.iteration,
            max_iterations=settings.max_iterations,
            **scores,
        )


def _child_repl(options: Mapping[str, Any], level: RecursionLevel) -> EnvHandle[REPLAction, REPLObservation]:
    """A child REPL with the sandbox options and the LLM backend of its parent."""
    child = REPLEnvironment(**options)
    child._llm = child._llm.for_child(level)
    return adapt(child, id="repl.child")


def _greeting(settings: Settings, attempt: Attempt | None) -> str:
    lines = [
        f"`context` has {len(settings.context)} characters." if settings.context else "There is no context.",
        f"Task: {_task_text(settings.task_prompt, attempt)}" if settings.task_prompt else "",
        'Answer with FINAL(value), FINAL_VAR("name"), or answer = {"content": value, "ready": True}.',
    ]
    return "\n".join(line for line in lines if line)


def _task_text(prompt: str, attempt: Attempt | None) -> str:
    if attempt is None or not attempt.task.tests:
        return prompt
    name = attempt.task.function
    return f'{prompt.rstrip()}\n\nDefine the function `{name}` in the REPL, then submit it with FINAL("{name}").'


def _answer_text(answer: Any) -> str | None:
    """The answer of a task as text; the grader reads lists from text."""
    return str(answer) if isinstance(answer, list | tuple | set) else expected_text(answer)

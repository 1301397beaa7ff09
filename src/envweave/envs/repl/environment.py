"""The REPL environment of recursive language models: Python code works on a large text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from envweave.core.handle import EnvHandle
from envweave.envs.code import CodeEnvironment, CodeSnapshot
from envweave.envs.episode_session import Prelude
from envweave.envs.interpreter import MODULES, Interpreter, checked_seed
from envweave.envs.repl import settings
from envweave.envs.repl.blocks import run_block
from envweave.envs.repl.llm_backends import Query
from envweave.envs.repl.llm_functions import LLMFunctions, LLMOptions
from envweave.envs.repl.recursion import RecursionLevel
from envweave.envs.repl.scoring import Metric, Rewards, correctness, expected_text
from envweave.envs.repl.submission import Submission
from envweave.envs.repl.types import CodeBlockResult, REPLAction, REPLObservation, REPLState
from envweave.errors import ResetNeededError
from envweave.plan import adapt
from envweave.sandbox import Limits

LIMITS = Limits(memory_bytes=1 << 30, return_bytes=1 << 20, tool_wall=900.0)
"""Enough for a context of some hundred megabytes and for slow language models."""

_INSIDE = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Episode:
    """The environment's data on an episode."""

    context: str
    task: str
    max_iterations: int
    expected: str | None
    id: str | None = None
    iteration: int = 0
    names: tuple[str, ...] = ()
    answer: str | None = None
    seconds: float = 0.0


class REPLEnvironment(CodeEnvironment[REPLAction, REPLObservation]):
    """Code works on `context` until it gives an answer, or the iterations run out.

    `llm_query_fn(prompt)`, `llm_batch_fn(prompts)` and `llm_chat_fn(messages)` answer `llm_query` and `rlm_query`; each
    may also take `model`. Without them, the caller's `hf_token` or the variables of the process select a language
    model (`envweave.lm`). `metric(expected, answer)` scores an answer if the expected one is known. Otherwise the
    answer is not scored, or earns `reward_on_success` if that is set. The `rlm_…` options bound `rlm_query`. The
    default of an option that is None is read from OpenEnv's variables (`REPL_MAX_ITERATIONS`, …).
    """

    MESSAGE_BYTES: ClassVar[int] = 256 * 2**20

    def __init__(
        self,
        *,
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
        settings.functions(metric=metric, transform=transform)
        settings.functions(llm_query_fn=llm_query_fn, llm_batch_fn=llm_batch_fn, llm_chat_fn=llm_chat_fn)
        sandbox_options: dict[str, Any] = {"modules": modules, "limits": limits, "sandbox": sandbox}
        super().__init__(Interpreter(**sandbox_options), transform, None)
        self._context = settings.text("context", context, os.environ.get("REPL_CONTEXT", ""))
        self._task = settings.text("task_prompt", task_prompt, os.environ.get("REPL_TASK_PROMPT", ""))
        self._max_iterations = settings.number("max_iterations", max_iterations)
        self._is_bound = settings.is_set("max_iterations", max_iterations)
        """Whether `reset` may not ask for more."""
        self._max_output = settings.number("max_output_length", max_output_length)
        self._preview = settings.number("context_preview_length", context_preview_length)
        self._rewards = Rewards(
            on_success=None if reward_on_success is None else settings.real("reward_on_success", reward_on_success),
            on_iteration=settings.real("reward_on_iteration", reward_on_iteration),
            on_failure=settings.real("reward_on_failure", reward_on_failure),
            on_error=settings.real("reward_on_error", reward_on_error),
            metric=metric,
        )
        self._max_depth = settings.number("rlm_max_depth", rlm_max_depth)
        self._max_below = settings.number("rlm_max_iterations", rlm_max_iterations)
        llm_options = LLMOptions(
            query=llm_query_fn,
            batch=llm_batch_fn,
            chat=llm_chat_fn,
            children=settings.number("rlm_max_children", rlm_max_children),
            child_seconds=settings.real("rlm_child_timeout_s", rlm_child_timeout_s),
        )
        self._llm = LLMFunctions(llm_options, partial(_child_repl, sandbox_options))
        self._submission = Submission()

    def reset(
        self,
        *,
        seed: int | None = None,
        episode_id: str | None = None,
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
        episode = Episode(
            context=settings.text("context", context, self._context),
            task=settings.text("task_prompt", task_prompt, self._task),
            max_iterations=self._iterations(max_iterations),
            expected=expected_text(expected_answer),
            id=episode_id,
        )
        self._llm.begin(
            hf_token=hf_token,
            model=settings.text("llm_model", llm_model, "") or None,
            max_depth=settings.within("rlm_max_depth", rlm_max_depth, self._max_depth),
            max_iterations=settings.within("rlm_max_iterations", rlm_max_iterations, self._max_below),
        )
        values = {"context": episode.context, "answer": {"content": "", "ready": False}}
        self._python.begin(seed=seed, tools=self._functions(), prelude=Prelude(_INSIDE, values))
        self._begin_episode(replace(episode, names=("context", "answer")))
        return self._seen(CodeBlockResult(stdout=_greeting(episode)), metadata={"task_prompt": episode.task})

    def step(self, action: REPLAction) -> REPLObservation:
        episode: Episode | None = self._episode
        if episode is None:
            raise ResetNeededError("there is no episode yet", "call env.reset() first")
        self._check_running()
        if action.is_final:
            self._episode = replace(episode, iteration=episode.iteration + 1)
            block = CodeBlockResult(stdout="The answer was submitted.")
            return self._answered(action.final_answer or "", block, last_code="")
        last = episode.iteration + 1 >= episode.max_iterations
        ran = run_block(
            self._python,
            self._submission,
            action.code,
            last=last,
            longest=self._max_output,
        )
        self._episode = replace(
            episode,
            iteration=episode.iteration + 1,
            names=tuple(ran.result.locals_snapshot),
            seconds=episode.seconds + ran.result.execution_time,
            answer=ran.left,
        )
        told: dict[str, Any] = {"last_code": action.code}
        if ran.answer is not None:
            return self._answered(ran.answer, ran.result, **told)
        if last:  # the content of `answer` is kept, but earns nothing
            told |= {"truncated": True, "final_answer": ran.left}
            return self._told(ran.result, self._rewards.on_failure, done=True, **told)
        reward = self._rewards.of_step(failed=not ran.result.success)
        return self._told(ran.result, reward, final_answer=None, **told)

    @property
    def state(self) -> REPLState:
        """Before the first reset, the state of an empty session."""
        episode: Episode | None = self._episode
        if episode is None:
            return REPLState(max_iterations=self._max_iterations)
        return REPLState(
            episode_id=episode.id,
            step_count=episode.iteration,
            context=episode.context,
            task_prompt=episode.task,
            iteration=episode.iteration,
            max_iterations=episode.max_iterations,
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
        self._submission, self._llm = Submission(), original._llm.fork()

    def close(self) -> None:
        self._llm.end()
        super().close()

    def _functions(self) -> dict[str, Callable[..., Any]]:
        return {**self._llm.functions(), "_submit_final_answer": self._submission.give}

    def _iterations(self, asked: int | None) -> int:
        if self._is_bound:
            return settings.within("max_iterations", asked, self._max_iterations)
        return self._max_iterations if asked is None else settings.number("max_iterations", asked)

    def _answered(self, answer: str, block: CodeBlockResult, **told: Any) -> REPLObservation:
        episode: Episode = replace(self._episode, answer=answer)
        self._episode = episode
        reward, why = self._rewards.of_answer(answer, episode.expected)
        return self._told(block, reward, done=True, final_answer=answer, **told, **why)

    def _told(
        self, block: CodeBlockResult, reward: float | None, *, done: bool = False, **told: Any
    ) -> REPLObservation:
        metadata = {"task_prompt": self._episode.task, **told}
        return self._scored(self._seen(block, reward=reward, done=done, metadata=metadata))

    def _seen(self, block: CodeBlockResult, **scores: Any) -> REPLObservation:
        episode: Episode = self._episode
        return REPLObservation(
            result=block,
            context_preview=episode.context[: self._preview] or None,
            context_length=len(episode.context),
            available_variables=list(episode.names),
            iteration=episode.iteration,
            max_iterations=episode.max_iterations,
            **scores,
        )


def _child_repl(options: Mapping[str, Any], level: RecursionLevel) -> EnvHandle[REPLAction, REPLObservation]:
    """A child REPL with the sandbox options and the LLM backend of its parent."""
    child = REPLEnvironment(**options)
    child._llm = child._llm.for_child(level)
    return adapt(child, id="repl.child")


def _greeting(episode: Episode) -> str:
    lines = [
        f"`context` has {len(episode.context)} characters." if episode.context else "There is no context.",
        f"Task: {episode.task}" if episode.task else "",
        'Answer with FINAL(value), FINAL_VAR("name"), or answer = {"content": value, "ready": True}.',
    ]
    return "\n".join(line for line in lines if line)

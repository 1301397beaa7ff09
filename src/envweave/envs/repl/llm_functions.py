"""The functions `llm_query`, `rlm_query`, … that code in the REPL calls, and the backend that answers them.

`rlm_query` lets a language model work on a prompt in a child REPL. The depth, the number of children per episode, and
the turns and the time of each are bounded. At the maximum depth, the prompt goes straight to the model.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from envweave.core.handle import EnvHandle
from envweave.envs.repl.driver import play
from envweave.envs.repl.llm_backends import LLMBackend, ask_in_parallel, choose_backend
from envweave.envs.repl.settings import Settings
from envweave.envs.repl.types import REPLAction, REPLObservation
from envweave.envs.shared import Share
from envweave.errors import UsageError

_REPLS_AT_ONCE = 4
_MOST_PROMPTS = 1000
"""Of one call."""
_SHORT = 4_000
"""Characters; a prompt up to this length is also the task, a longer one is only in `context`."""


@dataclass
class Budget:
    """Shared by all REPLs of one episode."""

    children: int
    """Child REPLs that are left."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the episode has ended."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> None:
        with self._lock:
            if self.children <= 0:
                raise RuntimeError("this episode has used up its REPLs for rlm_query")
            self.children -= 1


@dataclass(frozen=True)
class RecursionLevel:
    """The depth of a REPL below that of the episode, its backend, and the bounds of its children."""

    backend: LLMBackend
    budget: Budget
    settings: Settings
    depth: int = 0
    deadline: float | None = None

    @property
    def may_have_children(self) -> bool:
        return self.depth + 1 < self.settings.rlm_max_depth

    def child(self) -> RecursionLevel:
        """The level of a child, whose time begins now and ends with that of its parent at the latest."""
        ends = time.monotonic() + self.settings.rlm_child_timeout_s
        return replace(self, depth=self.depth + 1, deadline=ends if self.deadline is None else min(ends, self.deadline))


MakeChild = Callable[[RecursionLevel], EnvHandle[REPLAction, REPLObservation]]


class LLMFunctions:
    """For one environment. A token is passed to the model's client and kept nowhere else."""

    def __init__(self, make: MakeChild) -> None:
        """`make` returns a child REPL."""
        self._make = make
        self._level: RecursionLevel | None = None
        self._backend: Share[LLMBackend] | None = None

    def for_child(self, level: RecursionLevel) -> LLMFunctions:
        """The functions of a child REPL, with the backend and the bounds of its parent."""
        child = LLMFunctions(self._make)
        child._level = level
        return child

    def begin(self, settings: Settings, hf_token: str | None) -> None:
        """Begin an episode. Queries of the previous one that still run are abandoned."""
        if self._level is not None and self._level.depth:  # a child has the backend of its parent
            return
        if hf_token is not None and not isinstance(hf_token, str):
            raise UsageError("hf_token is not text")
        functions = settings.llm_query_fn, settings.llm_batch_fn, settings.llm_chat_fn
        backend = Share.new(choose_backend(*functions, hf_token=hf_token, model=settings.llm_model or None))
        self.end()
        self._backend = backend
        self._level = RecursionLevel(backend.resource, Budget(settings.rlm_max_children), settings)

    def like(self, other: LLMFunctions) -> LLMFunctions:
        """Functions of this environment with the backend and a copy of the budget of `other`."""
        twin = LLMFunctions(self._make)
        twin._level = other._level
        if other._backend is not None and other._level is not None:
            twin._backend = other._backend.again()
            twin._level = replace(other._level, budget=Budget(other._level.budget.children))
        return twin

    def fork(self) -> LLMFunctions:
        return self.like(self)

    def end(self) -> None:
        """Safe to call twice."""
        if self._backend is not None and self._level is not None:
            self._level.budget.ended.set()
            self._backend.release()

    def functions(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        asking = (self.llm_query, self.llm_query_batched, self.rlm_query, self.rlm_query_batched)
        return {**{call.__name__: call for call in asking}, "llm_batch": self.llm_query_batched}

    def llm_query(self, prompt: str, model: str | None = None) -> str:
        """Ask a language model. It sees nothing but the prompt."""
        return self._current.backend.query(_text(prompt), model)

    def llm_query_batched(self, prompts: list[str], model: str | None = None) -> list[str]:
        """Send several prompts at the same time; the answer is `Error: …` where one fails."""
        level = self._current
        return level.backend.query_batched(_texts(prompts), model, level.budget.ended.is_set)

    def rlm_query(self, prompt: str, model: str | None = None) -> str:
        """Let a language model work on a prompt in a child REPL, where it is `context`."""
        return answer_in_child(self._current, self._make, _text(prompt), model)

    def rlm_query_batched(self, prompts: list[str], model: str | None = None) -> list[str]:
        """The same for several prompts; the answer is `Error: …` where one fails."""
        level = self._current
        if not level.may_have_children:
            return self.llm_query_batched(prompts, model)
        ask = partial(answer_in_child, level, self._make, model=model)
        return ask_in_parallel(ask, _texts(prompts), level.budget.ended.is_set, _REPLS_AT_ONCE)

    @property
    def _current(self) -> RecursionLevel:
        assert self._level is not None  # code runs after `begin` only
        return self._level


def answer_in_child(level: RecursionLevel, make: MakeChild, prompt: str, model: str | None) -> str:
    """The answer of a child REPL to a prompt. Raises `RuntimeError` if it gives none."""
    if not level.may_have_children:
        return level.backend.query(prompt, model)
    level.budget.take()
    child, turns = level.child(), level.settings.rlm_max_iterations
    with make(child) as env:
        task = prompt if len(prompt) <= _SHORT else "Do what the text in `context` asks for."
        begun = env.reset(context=prompt, task_prompt=task, max_iterations=turns)
        run = play(
            partial(level.backend.chat, model=model),
            env,
            begun,
            task,
            max_turns=turns,
            deadline=child.deadline,
            stopped=level.budget.ended.is_set,
        )
    if run.answer is None:
        raise RuntimeError(f"the child REPL gave no answer: {run.ended}")
    return run.answer


def _text(prompt: Any) -> str:
    if not isinstance(prompt, str):
        raise TypeError(f"a prompt is text, not {type(prompt).__name__}")
    return prompt


def _texts(prompts: Any) -> list[str]:
    if not isinstance(prompts, list | tuple):
        raise TypeError(f"prompts are a list of text, not {type(prompts).__name__}")
    if len(prompts) > _MOST_PROMPTS:
        raise ValueError(f"{len(prompts)} prompts are more than the {_MOST_PROMPTS} that one call takes")
    return [_text(prompt) for prompt in prompts]

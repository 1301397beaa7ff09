"""The functions `llm_query`, `rlm_query`, … that code in the REPL calls, and the backend that answers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from envweave.envs.repl.llm_backends import LLMBackend, Query, ask_in_parallel, choose_backend
from envweave.envs.repl.recursion import Budget, MakeChild, RecursionLevel, answer_in_child
from envweave.envs.shared import Share
from envweave.errors import UsageError

_REPLS_AT_ONCE = 4
_MOST_PROMPTS = 1000
"""Of one call."""


@dataclass(frozen=True, kw_only=True)
class LLMOptions:
    """The functions that answer unless a caller's token is given, and the bounds of `rlm_query`."""

    query: Query | None = None
    batch: Query | None = None
    chat: Query | None = None
    children: int = 64
    child_seconds: float = 300.0


class LLMFunctions:
    """For one environment. A token is passed to the model's client and kept nowhere else."""

    def __init__(self, options: LLMOptions, make: MakeChild) -> None:
        """`make` returns a child REPL."""
        self._options = options
        self._make = make
        self._is_child = False
        self._level: RecursionLevel | None = None
        self._backend: Share[LLMBackend] | None = None

    def for_child(self, level: RecursionLevel) -> LLMFunctions:
        """The functions of a child REPL, with the backend and the bounds of its parent."""
        child = LLMFunctions(self._options, self._make)
        child._is_child, child._level = True, level
        return child

    def begin(self, *, hf_token: str | None, model: str | None, max_depth: int, max_iterations: int) -> None:
        """Begin an episode. Queries of the previous one that still run are abandoned."""
        if self._is_child:
            return
        if hf_token is not None and not isinstance(hf_token, str):
            raise UsageError("hf_token is not text")
        options = self._options
        ask = partial(choose_backend, options.query, options.batch, options.chat)
        backend = Share.new(ask(hf_token=hf_token, model=model))
        self.end()
        self._backend = backend
        self._level = RecursionLevel(
            backend.resource,
            Budget(options.children),
            max_depth=max_depth,
            max_iterations=max_iterations,
            child_seconds=options.child_seconds,
        )

    def like(self, other: LLMFunctions) -> LLMFunctions:
        """Functions of this environment with the backend and a copy of the budget of `other`."""
        twin = LLMFunctions(self._options, self._make)
        twin._is_child, twin._level = other._is_child, other._level
        if other._backend is not None and other._level is not None:
            twin._backend = other._backend.again()
            twin._level = replace(other._level, budget=other._level.budget.copied())
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

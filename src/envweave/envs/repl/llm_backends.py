"""The backends of `llm_query`: functions of the user, a model behind an endpoint, or none."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from envweave.core.loop import BACKGROUND
from envweave.errors import EnvWeaveError, UnavailableError, describe
from envweave.lm import LanguageModel

AT_ONCE = 8
"""Prompts that are sent at the same time, at most."""

T = TypeVar("T")
Message: TypeAlias = dict[str, str]
"""A `role` and a `content`."""
Query = Callable[..., Any]
Stopped = Callable[[], bool]
"""Whether the answers are no longer needed."""


class LLMBackend(Protocol):
    """Answers from a language model. Raises what the model's client raises."""

    def query(self, prompt: str, model: str | None) -> str: ...

    def query_batched(self, prompts: Sequence[str], model: str | None, stopped: Stopped) -> list[str]:
        """In the order of the prompts; `Error: …` for those that failed or were stopped."""

    def chat(self, messages: list[Message], model: str | None) -> str:
        """The answer to a conversation."""

    def close(self) -> None: ...


def choose_backend(
    query: Query | None, batch: Query | None, chat: Query | None, *, hf_token: str | None, model: str | None
) -> LLMBackend:
    """The backend for the caller's token, else for the functions, else for the variables of this process."""
    if hf_token is None and (query is not None or batch is not None or chat is not None):
        return FunctionBackend(query, batch, chat, model)
    try:
        found = LanguageModel.from_environment(model=model, hf_token=hf_token)
    except UnavailableError as error:
        if hf_token is not None:
            raise
        return NoBackend(str(error))
    return NoBackend() if found is None else ModelBackend(found)


class ModelBackend:
    """A model behind an OpenAI-compatible endpoint."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def query(self, prompt: str, model: str | None) -> str:
        return self._model.query(prompt, model=model)

    def query_batched(self, prompts: Sequence[str], model: str | None, stopped: Stopped) -> list[str]:
        return [text_or_error(found) for found in self._model.query_batched(prompts, model=model)]

    def chat(self, messages: list[Message], model: str | None) -> str:
        return self._model.chat(messages, model=model)

    def close(self) -> None:
        self._model.close()


class FunctionBackend:
    """Functions of the user, which may take the name of a model as `model`."""

    def __init__(self, query: Query | None, batch: Query | None, chat: Query | None, model: str | None) -> None:
        self._query, self._batch, self._chat = query, batch, chat
        self._model = model

    def query(self, prompt: str, model: str | None) -> str:
        if self._query is not None:
            return str(self._called(self._query, prompt, model))
        if self._chat is not None:
            return self.chat([{"role": "user", "content": prompt}], model)
        return self.query_batched([prompt], model, lambda: False)[0]

    def query_batched(self, prompts: Sequence[str], model: str | None, stopped: Stopped) -> list[str]:
        if self._batch is None:
            return ask_in_parallel(lambda prompt: self.query(prompt, model), prompts, stopped)
        answers = [str(answer) for answer in self._called(self._batch, list(prompts), model)]
        if len(answers) != len(prompts):
            raise ValueError(f"{len(answers)} answers to {len(prompts)} prompts")
        return answers

    def chat(self, messages: list[Message], model: str | None) -> str:
        if self._chat is not None:
            return str(self._called(self._chat, messages, model))
        return self.query("\n\n".join(f"{said['role']}: {said['content']}" for said in messages), model)

    def close(self) -> None:
        """Nothing to close."""

    def _called(self, function: Query, asked: Any, model: str | None) -> Any:
        answer = function(asked, model=model or self._model) if _takes_model(function) else function(asked)
        return BACKGROUND.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


class NoBackend:
    """Raises `RuntimeError` for every query."""

    def __init__(self, why: str = "") -> None:
        self._why = why or "pass llm_query_fn=… or hf_token=…, or set LLM_BASE_URL or HF_TOKEN"

    def query(self, prompt: str, model: str | None) -> str:
        raise RuntimeError(f"there is no language model here: {self._why}")

    def query_batched(self, prompts: Sequence[str], model: str | None, stopped: Stopped) -> list[str]:
        return [self.query("", model)] if prompts else []

    def chat(self, messages: list[Message], model: str | None) -> str:
        return self.query("", model)

    def close(self) -> None:
        """Nothing to close."""


def ask_in_parallel(
    ask: Callable[[T], str], questions: Sequence[T], stopped: Stopped, at_once: int = AT_ONCE
) -> list[str]:
    """Ask on `at_once` threads until `stopped`. Returns the answers in order, `Error: …` where one failed.

    The threads are daemons, so that a function that never returns does not keep the process alive.
    """
    todo, lock = iter(enumerate(questions)), threading.Lock()
    answers = ["Error: the episode has ended"] * len(questions)

    def work() -> None:
        while True:
            with lock:
                place, question = next(todo, (-1, None))
            if place < 0 or stopped():
                return
            try:
                answers[place] = ask(question)  # type: ignore[arg-type]
            except Exception as error:  # a user's function may raise anything; the other answers are kept
                answers[place] = text_or_error(error)

    threads = [
        threading.Thread(target=work, name=f"llm_query-{number}", daemon=True)
        for number in range(min(at_once, len(questions)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def text_or_error(found: str | BaseException) -> str:
    if isinstance(found, str):
        return found
    return f"Error: {found.message if isinstance(found, EnvWeaveError) else describe(found)}"


def _takes_model(function: Query) -> bool:
    try:
        return "model" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


async def _awaited(answer: Any) -> Any:
    return await answer

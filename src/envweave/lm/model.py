"""`LanguageModel`: what a judge or a REPL holds to ask a model."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn

from envweave.core.loop import await_on
from envweave.errors import (
    ClosedError,
    LanguageModelError,
    ModelUnavailableError,
    UnsupportedError,
    UsageError,
    describe,
)
from envweave.lm.address import checked_url
from envweave.lm.answer import Answer, Raw, read_answer
from envweave.lm.body import Message, body_for, check_extra, prompt_message
from envweave.lm.limits import check_limits
from envweave.lm.pause import pause_before
from envweave.lm.pool import Pool, endpoint_class, loop
from envweave.lm.secret import Secret
from envweave.lm.usage import Usage
from envweave.lm.variables import settings_from


class LanguageModel:
    """A model behind an OpenAI-compatible endpoint, for any number of threads; `aio` is the same for `await`.

    `timeout` is for a whole call, with its retries, from when it has its turn: at most `at_once` calls are under way.
    What may pass (no connection, HTTP 429 or 5xx) is tried `retries` times more. `extra` are further fields of the
    request. The token is shown nowhere (see `secret`), so a model cannot be pickled or copied. Close it, or use `with`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        token: str | None = None,
        timeout: float = 300.0,
        max_tokens: int | None = 2048,
        temperature: float | None = 0.6,
        at_once: int = 8,
        retries: int = 2,
        extra: Mapping[str, Any] | None = None,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        check_limits(timeout, at_once=at_once, retries=retries, max_tokens=max_tokens, temperature=temperature)
        if not isinstance(model, str) or not model:
            raise UsageError(f"a model is named by a string, not {model!r:.100}")
        endpoint_class()  # a missing package is said now, not in the middle of an episode
        self.model = model
        self.base_url = checked_url(base_url)
        self.timeout, self.at_once, self.retries = timeout, at_once, retries
        self._secret = Secret(token)
        self._fields = {"max_tokens": max_tokens, "temperature": temperature, **check_extra(extra or {})}
        self._sleep = sleep
        self._usage = Usage()
        self._pool: Pool | None = None
        self._closed = False

    @classmethod
    def from_environment(
        cls, model: str | None = None, hf_token: str | None = None, environ: Mapping[str, str] = os.environ
    ) -> LanguageModel | None:
        """The model that the caller's token or the operator's variables give, or None: see `variables`.

        Raises `UsageError` for a token or URL that cannot be used.
        """
        settings = settings_from(model, hf_token, environ)
        return None if settings is None else cls(**settings)

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return self._usage

    @property
    def aio(self) -> AsyncLanguageModel:
        """The same model for `await`, on any event loop."""
        return AsyncLanguageModel(self)

    def chat(self, messages: Sequence[Message], *, model: str | None = None) -> str:
        """The model's answer to a conversation. Raises `LanguageModelError`; `model` is another one at the endpoint."""
        return loop().run(self._call(self._body(messages, model), model or self.model))

    def query(self, prompt: str, *, model: str | None = None) -> str:
        """The model's answer to one message."""
        return self.chat([prompt_message(prompt)], model=model)

    def query_batched(self, prompts: Sequence[str], *, model: str | None = None) -> list[str | LanguageModelError]:
        """The answers in the order of the prompts; where one failed stands its error."""
        return loop().run(self._batch(self._bodies(prompts, model), model or self.model))

    def close(self) -> None:
        """End the connections; calls under way and later ones raise `ClosedError`."""
        self._closed = True
        if self._pool is not None and self._pool.is_ours:
            loop().run(self._pool.close())

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LanguageModel({self.model!r}, base_url={self.base_url!r})"

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(
            "a language model is not copied or pickled: it holds a token", "make one where it is used"
        )

    def _body(self, messages: Sequence[Message], model: str | None) -> bytes:
        return body_for(messages, model or self.model, self._fields)

    def _bodies(self, prompts: Sequence[str], model: str | None) -> list[bytes]:
        if isinstance(prompts, str):
            raise UsageError("a list of prompts, not one string", "query is for one prompt")
        return [self._body([prompt_message(prompt)], model) for prompt in prompts]

    async def _batch(self, bodies: list[bytes], model: str) -> list[str | LanguageModelError]:
        async def settled(body: bytes) -> str | LanguageModelError:
            try:
                return await self._call(body, model)
            except LanguageModelError as error:
                return error

        return await asyncio.gather(*(settled(body) for body in bodies))

    async def _call(self, body: bytes, model: str) -> str:
        """One call with its retries. It runs on `loop()`, as everything that changes `_usage` and `_pool` does."""
        pool = self._open()
        outcome: Answer | LanguageModelError
        async with pool.turn():
            self._usage = self._usage.plus(calls=1)
            try:
                async with asyncio.timeout(self.timeout) as deadline:
                    outcome = await self._insist(pool, body, model, deadline.when() or 0.0)
            except TimeoutError:
                outcome = ModelUnavailableError(f"no answer from {self.base_url} within {self.timeout:g} s")
        if isinstance(outcome, Answer):
            tokens = {"prompt_tokens": outcome.prompt_tokens, "completion_tokens": outcome.completion_tokens}
            self._usage = self._usage.plus(**tokens)
            return outcome.text
        self._usage = self._usage.plus(failures=1)
        raise outcome  # out of every `except`, so that no exception of others hangs on to it

    async def _insist(self, pool: Pool, body: bytes, model: str, end: float) -> Answer | LanguageModelError:
        """Attempts until one has an answer, an error that will stay, or no time for another."""
        attempt = 0
        while True:
            raw = await pool.endpoint.post(body)
            if isinstance(raw, Raw):
                outcome = read_answer(raw, model=model, url=self.base_url, secret=self._secret)
            else:
                outcome = raw
            attempt += 1
            if isinstance(outcome, Answer) or not outcome.retryable or attempt > self.retries:
                return outcome
            pause = pause_before(attempt, raw.headers if isinstance(raw, Raw) else {})
            if asyncio.get_running_loop().time() + pause >= end:
                return outcome
            await self._sleep(pause)

    def _open(self) -> Pool:
        """The pool of this process."""
        self._check_open()
        if self._pool is not None and not self._pool.is_ours:
            self._pool.drop()
            self._pool = None
        if self._pool is None:
            self._pool = self._new_pool()
            weakref.finalize(self, self._pool.drop).atexit = False
            self._check_open()
        return self._pool

    def _check_open(self) -> None:
        """Raises `ClosedError`, and ends a pool that whoever closed the model may not have seen."""
        if self._closed:
            if self._pool is not None and not self._pool.closed:
                self._pool.drop()
            raise ClosedError("the language model was closed")

    def _new_pool(self) -> Pool:
        try:
            return Pool(self.base_url, self._secret, self.at_once)
        except Exception as error:  # a proxy or a file of certificates that cannot be used
            reason = self._secret.hide(describe(error))
        hint = "look at the variables HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
        raise LanguageModelError(f"no connection to {self.base_url} can be made: {reason}", hint)


class AsyncLanguageModel:
    """A `LanguageModel` for `await`. A call that is cancelled ends its connection."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def chat(self, messages: Sequence[Message], *, model: str | None = None) -> str:
        """The model's answer to a conversation. Raises `LanguageModelError`."""
        own = self._model
        return await await_on(loop().loop, own._call(own._body(messages, model), model or own.model))

    async def query(self, prompt: str, *, model: str | None = None) -> str:
        """The model's answer to one message."""
        return await self.chat([prompt_message(prompt)], model=model)

    async def query_batched(
        self, prompts: Sequence[str], *, model: str | None = None
    ) -> list[str | LanguageModelError]:
        """The answers in the order of the prompts; where one failed stands its error."""
        own = self._model
        return await await_on(loop().loop, own._batch(own._bodies(prompts, model), model or own.model))

    async def close(self) -> None:
        """End the connections; calls under way and later ones raise `ClosedError`."""
        await asyncio.to_thread(self._model.close)

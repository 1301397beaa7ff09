"""`LanguageModel`: what a policy, a judge or a REPL holds to ask a model."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from typing_extensions import Unpack

from envweave.errors import (
    ClosedError,
    LanguageModelError,
    ModelTimeoutError,
    UnsupportedError,
    UsageError,
    describe,
)
from envweave.lm.address import checked_url
from envweave.lm.aio import AsyncLanguageModel
from envweave.lm.calls import Calls, check_installed, client_class, loop
from envweave.lm.chunks import OnDelta
from envweave.lm.exchange import exchange
from envweave.lm.limits import check_limits
from envweave.lm.messages import Messages, prompt_message
from envweave.lm.options import CallOptions, Request, make_request
from envweave.lm.reply import Reply, Usage
from envweave.lm.secrets import Secret
from envweave.lm.stream import ReplyStream
from envweave.lm.variables import settings_from

if TYPE_CHECKING:
    from envweave.lm.client import ModelClient


class LanguageModel:
    """A model behind an OpenAI-compatible endpoint, for any number of threads; `aio` is the same for `await`.

    Every call takes `CallOptions`, which replace those of the model, and the name of another model at the same
    endpoint. At most `max_concurrency` calls are under way; in any minute, at most `requests_per_minute` begin and
    `tokens_per_minute` are used. `timeout` is for a whole call, with its retries, from when these limits allow it. What
    may pass (no connection, HTTP 408, 409, 429 or 5xx) is tried `max_retries` times more, after the pause that the
    endpoint asks for. The key is shown nowhere (see `secrets`), so a model cannot be pickled or copied. Close it, or
    use `with`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        max_concurrency: int = 8,
        max_retries: int = 2,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        check_limits(max_concurrency=max_concurrency, max_retries=max_retries)
        check_limits(requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute)
        check_installed()  # a missing package is said now, not in the middle of an episode
        self.model = model
        self.base_url = checked_url(base_url)
        self.max_concurrency, self.max_retries = max_concurrency, max_retries
        self._rates = (requests_per_minute, tokens_per_minute)
        self._secret = Secret(api_key)
        self._options: CallOptions = {"max_tokens": 2048, "temperature": 0.6, "timeout": 300.0, **options}
        self._request([prompt_message("")], None, {})  # what no call fits is refused now
        self._usage = Usage()
        self._calls: Calls | None = None
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

    def reply(self, messages: Messages, *, model: str | None = None, **options: Unpack[CallOptions]) -> Reply:
        """The model's reply to a conversation. Raises `LanguageModelError`."""
        return loop().run(self._call(self._request(messages, model, options)))[0]

    def replies(
        self, messages: Messages, n: int, *, model: str | None = None, **options: Unpack[CallOptions]
    ) -> tuple[Reply, ...]:
        """`n` replies to the same conversation, drawn by one call."""
        return loop().run(self._call(self._request(messages, model, options, n)))

    def stream(self, messages: Messages, *, model: str | None = None, **options: Unpack[CallOptions]) -> ReplyStream:
        """The reply piece by piece. Iterating raises `IncompleteStreamError` if it ends before it is complete."""
        return ReplyStream(self._pull(messages, model, options))

    def chat(self, messages: Messages, *, model: str | None = None, **options: Unpack[CallOptions]) -> str:
        """The text of the reply. Raises `LanguageModelError`, also for a reply without text."""
        return self.reply(messages, model=model, **options).require_text()

    def query(self, prompt: str, *, model: str | None = None, **options: Unpack[CallOptions]) -> str:
        """The text of the reply to one message."""
        return self.chat([prompt_message(prompt)], model=model, **options)

    def query_batched(
        self, prompts: Sequence[str], *, model: str | None = None, **options: Unpack[CallOptions]
    ) -> list[str | LanguageModelError]:
        """The texts in the order of the prompts; where a call failed, its error."""
        return loop().run(self._batch(self._requests(prompts, model, options)))

    def close(self) -> None:
        """End the connections; calls under way and later ones raise `ClosedError`."""
        self._closed = True
        if self._calls is not None and self._calls.is_ours:
            loop().run(self._calls.close())

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LanguageModel({self.model!r}, base_url={self.base_url!r})"

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("a language model is not copied or pickled: it holds a key", "make one where it is used")

    def _request(
        self, messages: Messages, model: str | None, options: CallOptions, n: int = 1, *, stream: bool = False
    ) -> Request:
        return make_request(model or self.model, messages, self._options, options, n=n, stream=stream)

    def _requests(self, prompts: Sequence[str], model: str | None, options: CallOptions) -> list[Request]:
        if isinstance(prompts, str):
            raise UsageError("a list of prompts, not one string", "query is for one prompt")
        return [self._request([prompt_message(prompt)], model, options) for prompt in prompts]

    def _pull(
        self, messages: Messages, model: str | None, options: CallOptions
    ) -> Callable[[OnDelta], Coroutine[Any, Any, Reply]]:
        request = self._request(messages, model, options, stream=True)

        async def pull(on_delta: OnDelta) -> Reply:
            return (await self._call(request, on_delta))[0]

        return pull

    async def _batch(self, requests: list[Request]) -> list[str | LanguageModelError]:
        async def settled(request: Request) -> str | LanguageModelError:
            try:
                return (await self._call(request))[0].require_text()
            except LanguageModelError as error:
                return error

        return await asyncio.gather(*map(settled, requests))

    async def _call(self, request: Request, on_delta: OnDelta | None = None) -> tuple[Reply, ...]:
        """One call with its retries. It runs on `loop()`, as everything that changes `_usage` and `_calls` does."""
        calls = self._open()
        outcome: tuple[Reply, ...] | LanguageModelError
        async with calls.turn(request.tokens) as reserved:
            self._usage += Usage(calls=1)
            try:
                async with asyncio.timeout(request.timeout):
                    outcome = await exchange(calls.client, request, on_delta, url=self.base_url, secret=self._secret)
            except TimeoutError:
                outcome = ModelTimeoutError(f"no answer from {self.base_url} within {request.timeout:g} s")
            if isinstance(outcome, tuple):
                used = outcome[0].usage
                reserved.amount = used.prompt_tokens + used.completion_tokens or reserved.amount
        if isinstance(outcome, tuple):
            self._usage += replace(outcome[0].usage, calls=0)
            return outcome
        self._usage += Usage(failures=1)
        raise type(outcome)(outcome.message, outcome.hint)  # a new one: the frames of the other hold the answer

    def _open(self) -> Calls:
        """The calls of this process."""
        self._check_open()
        if self._calls is not None and not self._calls.is_ours:
            self._calls.drop()
            self._calls = None
        if self._calls is None:
            self._calls = Calls(self._new_client(), self.max_concurrency, *self._rates)
            weakref.finalize(self, self._calls.drop).atexit = False
            self._check_open()
        return self._calls

    def _check_open(self) -> None:
        """Raises `ClosedError`, and ends calls that were begun while the model was being closed."""
        if self._closed:
            if self._calls is not None and not self._calls.closed:
                self._calls.drop()
            raise ClosedError("the language model was closed")

    def _new_client(self) -> ModelClient:
        try:
            return client_class()(self.base_url, self._secret, self.max_retries)
        except Exception as error:  # a proxy or a file of certificates that cannot be used
            reason = self._secret.hide(describe(error))
        hint = "look at the variables HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
        raise LanguageModelError(f"no connection to {self.base_url} can be made: {reason}", hint)

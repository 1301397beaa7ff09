"""`AsyncLanguageModel`: a `LanguageModel` for `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from envweave.core.loop import await_on
from envweave.errors import LanguageModelError
from envweave.lm.calls import loop
from envweave.lm.messages import Messages, prompt_message
from envweave.lm.options import CallOptions
from envweave.lm.reply import Reply
from envweave.lm.stream import AsyncReplyStream

if TYPE_CHECKING:
    from envweave.lm.model import LanguageModel


class AsyncLanguageModel:
    """A `LanguageModel` for `await`. A call that is cancelled ends its connection."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def reply(self, messages: Messages, *, model: str | None = None, **options: Unpack[CallOptions]) -> Reply:
        """The model's reply to a conversation. Raises `LanguageModelError`."""
        return (await self.replies(messages, 1, model=model, **options))[0]

    async def replies(
        self, messages: Messages, n: int, *, model: str | None = None, **options: Unpack[CallOptions]
    ) -> tuple[Reply, ...]:
        """`n` replies to the same conversation, drawn by one call."""
        return await await_on(loop().loop, self._model._call(self._model._request(messages, model, options, n)))

    def stream(
        self, messages: Messages, *, model: str | None = None, **options: Unpack[CallOptions]
    ) -> AsyncReplyStream:
        """The reply piece by piece: `async with model.aio.stream(…) as stream`."""
        return AsyncReplyStream(self._model._pull(messages, model, options))

    async def chat(self, messages: Messages, *, model: str | None = None, **options: Unpack[CallOptions]) -> str:
        """The text of the reply. Raises `LanguageModelError`, also for a reply without text."""
        return (await self.reply(messages, model=model, **options)).require_text()

    async def query(self, prompt: str, *, model: str | None = None, **options: Unpack[CallOptions]) -> str:
        """The text of the reply to one message."""
        return await self.chat([prompt_message(prompt)], model=model, **options)

    async def query_batched(
        self, prompts: Sequence[str], *, model: str | None = None, **options: Unpack[CallOptions]
    ) -> list[str | LanguageModelError]:
        """The texts in the order of the prompts; where a call failed, its error."""
        return await await_on(loop().loop, self._model._batch(self._model._requests(prompts, model, options)))

    async def close(self) -> None:
        """End the connections; calls under way and later ones raise `ClosedError`."""
        await asyncio.to_thread(self._model.close)

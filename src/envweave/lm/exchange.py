"""One request, and what comes back: replies, or the error that they are instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envweave.errors import IncompleteStreamError, InvalidReplyError, LanguageModelError, ModelUnavailableError
from envweave.lm.chunks import OnDelta, StreamedChoice
from envweave.lm.options import Request
from envweave.lm.reply import Reply, read_answer
from envweave.lm.secrets import Secret

if TYPE_CHECKING:
    from envweave.lm.client import ModelClient


async def exchange(
    client: ModelClient, request: Request, on_delta: OnDelta | None, *, url: str, secret: Secret
) -> tuple[Reply, ...] | LanguageModelError:
    """Send the request and read the answer; with `on_delta`, as a stream. Errors are returned."""
    if on_delta is None:
        data = await client.send(request.body)
    else:
        choice = StreamedChoice(secret, on_delta)
        data = await client.send(request.body, choice.add)
        if data is None:
            data = choice.completion() or IncompleteStreamError(f"{url} ended a stream before its end")
        elif choice.begun and type(data) is ModelUnavailableError:
            data = IncompleteStreamError(data.message)
    if isinstance(data, LanguageModelError):
        return data
    try:
        replies = read_answer(data, model=request.body["model"], url=url, secret=secret)
    except LanguageModelError as error:
        return error
    n = request.body.get("n", 1)
    if len(replies) < n:
        hint = "it does not support n: make several calls"
        return InvalidReplyError(f"{url} was asked for {n} replies and gives {len(replies)}", hint)
    return replies[:n]

"""Sends requests to one endpoint. The only module that imports `openai`: it takes about a second."""

from __future__ import annotations

import ssl
import sys
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import openai

from envweave.errors import InvalidReplyError, LanguageModelError
from envweave.lm.address import is_loopback
from envweave.lm.failures import connection_failure, not_json, refusal
from envweave.lm.secrets import IN_USE, Secret, redact_http_logs

CONNECT_TIMEOUT = 30.0
"""Seconds to get a connection, within the time of the whole call."""

MOST_ANSWER_BYTES = 64 * 1024 * 1024
MOST_ERROR_BYTES = 64 * 1024

SENT_HEADERS = frozenset(
    ["accept", "connection", "content-length", "content-type", "host", "transfer-encoding", "user-agent"]
)
"""Others, which `openai` takes from variables of the process, are not sent: the endpoint may be anybody's."""

_httpx: Any = sys.modules[openai.DefaultAsyncHttpxClient.__mro__[1].__module__]
"""The HTTP library of `openai`: httpx, or httpx2 since openai 3."""


class UnreadableError(BaseException):
    """An answer that is not read. After an `Exception`, some versions of `openai` would ask for it again."""


class ModelClient:
    """An `openai.AsyncOpenAI` that is made and used on one event loop.

    Redirects are not followed. A loopback address is reached directly, others through the proxy that the operator's
    variables name, if any. The client does not hold the token: it is added to each request.
    """

    def __init__(self, base_url: str, secret: Secret, max_retries: int) -> None:
        redact_http_logs()
        self._base_url, self._secret = base_url, secret
        self._client = openai.AsyncOpenAI(
            api_key="unused",  # else that of the process
            base_url=base_url,
            max_retries=max_retries,
            timeout=openai.Timeout(None, connect=CONNECT_TIMEOUT),
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False,
                verify=_trust(tls=base_url.startswith("https:")),
                trust_env=not is_loopback(base_url),
                event_hooks={"request": [self._set_headers], "response": [_bound]},
            ),
        )

    async def send(self, body: dict[str, Any], on_chunk: Callable[[Any], None] | None = None) -> Any:
        """The answer as data; with `on_chunk`, which gets the parts of a stream, None.

        Errors are returned: an exception of `openai` or `httpx` holds the request, and with it the token.
        """
        IN_USE.set(self._secret)
        try:
            if on_chunk is None:
                return await self._client.post("/chat/completions", cast_to=object, body=body)
            await self._stream(body, on_chunk)
        except LanguageModelError as error:  # from `on_chunk`
            return error
        except UnreadableError as error:
            return InvalidReplyError(f"the answer of {self._base_url} {error}")
        except Exception as error:  # whatever the network, TLS or the package do, the caller gets an error of ours
            return self._failure(error, str(body["model"]))
        return None

    async def _stream(self, body: dict[str, Any], on_chunk: Callable[[Any], None]) -> None:
        chunks = openai.AsyncStream[object]
        async with await self._client.post(
            "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=chunks
        ) as stream:
            if "json" in stream.response.headers.get("content-type", ""):
                raise InvalidReplyError(f"{self._base_url} was asked for a stream and answers without one")
            async for chunk in stream:
                on_chunk(chunk)

    async def aclose(self) -> None:
        await self._client.close()

    def _failure(self, error: Exception, model: str) -> LanguageModelError:
        place: dict[str, Any] = {"url": self._base_url, "secret": self._secret}
        if isinstance(error, openai.APIStatusError):
            return refusal(error.status_code, error.body, model=model, **place)
        if isinstance(error, openai.APIError) and not isinstance(error, openai.APIConnectionError):
            return refusal(200, error.body, model=model, **place)  # in the middle of a stream
        if isinstance(error, ValueError | RecursionError):
            return not_json(getattr(error, "doc", ""), **place)
        return connection_failure(error, **place)

    async def _set_headers(self, request: Any) -> None:
        for name in set(request.headers) - SENT_HEADERS:
            del request.headers[name]
        request.headers.update({"accept-encoding": "identity", **self._secret.headers()})


class _BoundedStream(_httpx.AsyncByteStream):  # type: ignore[misc]
    """The body of a response up to a size. A longer reply is an `UnreadableError`, a longer error is shortened."""

    def __init__(self, response: Any) -> None:
        self._stream, self._is_reply = response.stream, response.is_success

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_ANSWER_BYTES if self._is_reply else MOST_ERROR_BYTES
        async for chunk in self._stream:
            yield chunk[:left]
            left -= len(chunk)
            if left < 0 and self._is_reply:
                raise UnreadableError(f"is longer than {MOST_ANSWER_BYTES} bytes")
            if left < 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: Any) -> None:
    """No answer fills the memory: neither a long one nor one that is long when it is unpacked."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise UnreadableError("is compressed, and was asked not to be")
    response.stream = _BoundedStream(response)


@cache
def _trust(*, tls: bool) -> ssl.SSLContext:
    """The certificates to trust; none without TLS, because reading all of them takes a while."""
    return _httpx.create_ssl_context() if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

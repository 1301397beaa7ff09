"""Connections to one endpoint. The one door to httpx here."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from functools import cache

import httpx

from envweave.errors import LanguageModelError, ModelUnavailableError, describe
from envweave.lm.address import is_loopback
from envweave.lm.answer import Raw
from envweave.lm.secret import IN_USE, Secret, redact_http_logs

CONNECT_TIMEOUT = 30.0
"""Seconds to get a connection, within the time of the whole call."""

MOST_ANSWER_BYTES = 8 * 1024 * 1024
MOST_ERROR_BYTES = 64 * 1024


class Endpoint:
    """A pool of connections, made and used on one event loop.

    Redirects are not followed. A loopback address is reached directly, others through the proxy that the operator's
    variables name, if any.
    """

    def __init__(self, base_url: str, secret: Secret) -> None:
        redact_http_logs()
        self.url = f"{base_url}/chat/completions"
        self._base_url = base_url
        self._secret = secret
        self._http = httpx.AsyncClient(
            headers={"content-type": "application/json", "accept-encoding": "identity", **secret.headers()},
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            follow_redirects=False,
            verify=_trust(httpx.URL(base_url).scheme),
            trust_env=not is_loopback(base_url),
        )

    async def post(self, body: bytes) -> Raw | LanguageModelError:
        """One attempt. Errors are returned: an exception of httpx holds the request, and with it the token."""
        IN_USE.set(self._secret)
        try:
            async with self._http.stream("POST", self.url, content=body) as response:
                most = MOST_ANSWER_BYTES if response.is_success else MOST_ERROR_BYTES
                data, whole = await _read(response, most)
                return Raw(response.status_code, dict(response.headers), data, whole)
        except Exception as error:  # whatever the network, TLS or the library do, the caller gets an error of ours
            return self._failure(error)

    def _failure(self, error: Exception) -> LanguageModelError:
        causes = list(_causes(error))
        reason = self._secret.hide(describe(error))[:300]
        if any(isinstance(one, socket.gaierror) for one in causes):
            return ModelUnavailableError(
                f"the host of {self._base_url} has no address", "check base_url and the network"
            )
        if any(isinstance(one, ssl.SSLCertVerificationError) for one in causes):
            return LanguageModelError(f"the certificate of {self._base_url} cannot be trusted: {reason}")
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            hint = "is the server running? check base_url and the network"
            return ModelUnavailableError(f"cannot connect to {self._base_url}: {reason}", hint)
        if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError | httpx.ProxyError | OSError):
            return ModelUnavailableError(f"{self._base_url} ended the call without an answer: {reason}")
        return LanguageModelError(f"the call to {self._base_url} failed: {reason}")

    async def aclose(self) -> None:
        await self._http.aclose()


@cache
def _trust(scheme: str) -> ssl.SSLContext:
    """Whom we believe to be who they are: nobody, where it is not asked. To read all certificates takes a while."""
    return httpx.create_ssl_context() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def _read(response: httpx.Response, most: int) -> tuple[bytes, bool]:
    """The body as it is on the wire, up to `most` bytes, and whether that is all of it."""
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > most:
            return bytes(data[:most]), False
    return bytes(data), True


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _causes(one)
        error = error.__cause__ or error.__context__

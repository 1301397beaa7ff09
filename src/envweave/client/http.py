"""Sessions over plain HTTP. Only this module and `openenv` use httpx.

A call that gets no answer is sent again under its number, which the server runs once however often it comes. On a
server that shares one environment among all clients, calls have no numbers and are not sent again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from threading import get_ident
from typing import Any

import httpx

from envweave.client.endpoint import ServerEndpoint, SessionSpec
from envweave.client.session import Opened, PendingCall, RemoteSession
from envweave.client.websocket import pause_before
from envweave.errors import (
    EnvWeaveError,
    ProtocolError,
    ProviderError,
    SessionLostError,
    TransportError,
    UnauthorizedError,
    UnsupportedError,
    describe,
)
from envweave.wire.codec import decode, encode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import CALL_HEADER, SESSION_HEADER

LONGEST_WAIT = 60.0
"""Seconds to wait on one connection for an answer before it is asked for again."""

NO_SUCH_PATH = (404, 405)
TOO_LARGE = 413
CONFLICT = 409
MAX_UNCOUNTED = 4


class HTTPSession(RemoteSession):
    """One session, named in a header of each request."""

    def __init__(self, endpoint: ServerEndpoint, spec: SessionSpec) -> None:
        self.server = endpoint.address.http
        self.home, self.thread = asyncio.get_running_loop(), get_ident()
        self._endpoint = endpoint
        self._spec = spec
        self._number = 0
        self._shared = False
        """Other clients use the session too, so calls have no numbers, and one that gets no answer is not repeated."""
        self._call: PendingCall | None = None
        self._asking: asyncio.Task[None] | None = None
        self._http = _client(endpoint)

    @classmethod
    async def open(cls, endpoint: ServerEndpoint, spec: SessionSpec) -> HTTPSession:
        session = cls(await endpoint.ensure_running(), spec)
        try:
            response = await session._reached("POST", "/sessions", encode(spec.to_data()))
            if response.status_code in NO_SUCH_PATH:
                hint = "OpenEnv keeps no episode over HTTP: use EnvClient, which speaks its WebSocket"
                raise UnsupportedError(f"{session.server} has no sessions over HTTP", hint)
            session.opened = Opened.from_data(_answer(response))
            session._shared = session.opened.shared
        except BaseException:
            await session._http.aclose()
            raise
        return session

    def send(self, call: PendingCall) -> None:
        if call.kind != "close" and not self._shared:
            self._number += 1
            call.number = self._number
        self._call = call
        self._asking = self.home.create_task(self._ask(call))

    async def _ask(self, call: PendingCall) -> None:
        """Settle the call with the server's answer, or with an error."""
        method, path, body = "POST", f"/{call.kind}", call.body
        if call.kind == "close":
            method, path = "DELETE", f"/sessions/{self.opened.session_id}"
        elif call.kind == "state":
            method = "GET"
        elif call.kind == "step":
            body = b'{"action":%b}' % call.body
        try:
            response = await self._in_turn(call, method, path, body)
            if response.status_code == TOO_LARGE and call.number:
                self._number -= 1  # the server did not read it, so its number is free
            call.answer(_answer(response))
        except EnvWeaveError as error:
            call.answer(None, error)
        except Exception as error:  # a caller waits, so every error must reach it
            call.answer(None, TransportError(f"{method} {path} failed: {describe(error)}"))

    async def _in_turn(self, call: PendingCall, method: str, path: str, body: bytes) -> httpx.Response:
        """Send a call under the number that the server expects.

        It may have refused the call before without counting it. Numbers are tried downwards: the first one that the
        server accepts is the next one, never one that was used.
        """
        number = call.number
        first = response = await self._reached(method, path, body, number)
        while _out_of_turn(response) and number > max(1, call.number - MAX_UNCOUNTED):
            number -= 1
            response = await self._reached(method, path, body, number)
        if _out_of_turn(response):
            return first
        if number < call.number:
            self._number = call.number = number
        return response

    async def _reached(self, method: str, path: str, body: bytes, number: int = 0) -> httpx.Response:
        """Send until the server answers. Raises `TransportError`, or `SessionLostError` for a call on a session."""
        headers = {"content-type": "application/json"}
        if number or self._shared:
            headers |= {SESSION_HEADER: self.opened.session_id, CALL_HEADER: str(number)}
        patience = self._endpoint.connect_timeout_s if number else self._endpoint.refused_timeout_s
        end: float | None = None
        attempt = 0
        while True:
            try:
                response = await self._http.request(method, path, content=body, headers=headers)
                if not _from_a_proxy(response):
                    return response
                reason = f"HTTP {response.status_code}"
            except httpx.ReadTimeout as error:
                if number:  # the call may take that long: ask again for its answer
                    continue
                raise TransportError(f"no answer from {self.server}: {describe(error)}") from None
            except httpx.TransportError as error:
                reason = describe(error)
                if not number and not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    # The server may have run it, so it must not be sent again.
                    raise TransportError(f"no answer from {self.server}: {reason}") from None
            reason = await self._checked(number, reason)
            end = end or self.home.time() + patience
            pause = pause_before(attempt)
            attempt += 1
            if self.home.time() + pause >= end:
                hint = "is the server running? envweave serve <id>; check host, port and firewall"
                unreachable = TransportError(f"cannot reach {self.server}: {reason}", hint)
                if not number:
                    raise unreachable
                raise SessionLostError(unreachable.message, hint) from unreachable
            await asyncio.sleep(pause)

    async def _checked(self, number: int, reason: str) -> str:
        """Raise if the server is gone. Returns the reason of the failure, with what is known about the server."""
        try:
            unknown = await self._endpoint.check_alive()
            return f"{reason}; {unknown}" if unknown else reason
        except ProviderError as error:
            if not number:
                raise
            raise SessionLostError(f"{self.server} is gone ({reason}): {error.message}", error.hint) from error

    async def move(self) -> None:
        """The requests of the loop before went down with it; the open call is sent again."""
        self.home, self.thread = asyncio.get_running_loop(), get_ident()
        self._http = _client(self._endpoint)
        if self._call is not None and not self._call.answered:
            self._asking = self.home.create_task(self._ask(self._call))

    async def renew(self) -> HTTPSession:
        session = await HTTPSession.open(self._endpoint, self._spec)
        await self.leave()
        return session

    async def join(self, session_id: str, env_id: str) -> HTTPSession:
        twin = HTTPSession(self._endpoint, self._spec)
        twin.opened = replace(self.opened, session_id=session_id, env_id=env_id, last_id=0)
        return twin

    async def leave(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        await self._http.aclose()


def _client(endpoint: ServerEndpoint) -> httpx.AsyncClient:
    timeout = httpx.Timeout(LONGEST_WAIT, connect=endpoint.connect_timeout_s)
    way = httpx.AsyncHTTPTransport(uds=endpoint.address.socket) if endpoint.address.socket else None
    return httpx.AsyncClient(
        base_url=endpoint.address.http, headers=endpoint.all_headers, timeout=timeout, transport=way
    )


def _out_of_turn(response: httpx.Response) -> bool:
    return response.status_code == CONFLICT and _error_code(response) == ProtocolError.code


def _from_a_proxy(response: httpx.Response) -> bool:
    """An error that our server did not write: a proxy in between cannot reach it."""
    return response.status_code in (502, 503, 504) and not _error_code(response)


def _error_code(response: httpx.Response) -> str:
    """The code of an error that our server wrote; empty for any other body."""
    try:
        data = decode(response.content)
    except ProtocolError:
        return ""
    error = data.get("error") if isinstance(data, dict) else None
    return str(error.get("code", "")) if isinstance(error, dict) else ""


def _answer(response: httpx.Response) -> Any:
    """The data of an answer; an error is raised, of the class that the server says."""
    try:
        data = decode(response.content) if response.content else None
    except ProtocolError:
        data = None
    if response.is_success:
        return data
    if isinstance(data, dict) and "error" in data:
        raise fault_from_data(data)
    if response.status_code in (401, 403):
        raise UnauthorizedError(f"the server refuses (HTTP {response.status_code})", "pass token=…, or ENVWEAVE_TOKEN")
    raise TransportError(f"the server answers with HTTP {response.status_code}: {response.text:.200}")

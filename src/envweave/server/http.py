"""Plain HTTP: the calls on a session, which a header names. Without it they share one, the default session."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response

from envweave.errors import (
    CapacityError,
    EnvWeaveError,
    InvalidActionError,
    ProtocolError,
    SessionLostError,
    UnauthorizedError,
    UnsupportedError,
    UsageError,
)
from envweave.server.auth import http_fault
from envweave.server.host import Form, Reply
from envweave.server.reading import read_opening
from envweave.server.session import Session, give
from envweave.server.sessions import Sessions
from envweave.wire.codec import decode, encode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import CALL_HEADER, ERROR, SESSION_HEADER

STATUS: tuple[tuple[type[EnvWeaveError], int], ...] = (
    (InvalidActionError, 422),
    (ProtocolError, 422),
    (UnsupportedError, 501),
    (UsageError, 409),
    (SessionLostError, 404),
    (CapacityError, 503),
    (UnauthorizedError, 401),
    (EnvWeaveError, 500),
)
"""The HTTP status of an error; the first that fits."""

_JSON = "application/json"


class Routes:
    """The handlers, over the sessions of one server."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def add_to(self, app: FastAPI) -> None:
        """Put the routes on the application. `handle` does not go through FastAPI's argument machinery: it costs more than a step."""
        for name in ("reset", "step", "respond", "render", "snapshot", "restore", "fork"):
            self._add(app, f"/{name}", "POST", partial(self.call, name), name)
        self._add(app, "/state", "GET", partial(self.call, "state"), "state")
        self._add(app, "/sessions", "POST", self.open, "open")
        self._add(app, "/sessions/{session_id}", "DELETE", self.close, "close")

    @staticmethod
    def _add(app: FastAPI, path: str, method: str, handler: Any, name: str) -> None:
        async def endpoint(request: Request) -> Response:
            try:
                return await handler(request)  # type: ignore[no-any-return]
            except EnvWeaveError as error:
                return failed(error)

        app.add_api_route(path, endpoint, methods=[method], name=name, response_class=Response, include_in_schema=False)

    async def call(self, name: str, request: Request) -> Response:
        self._sessions.start()
        number = _number(request.headers.get(CALL_HEADER))
        data = await self._data(name, request)
        session = await self._session(request)
        reply = await self._asked(session, name, data, Form.OPENENV_HTTP if number is None else Form.EXTENDED, number)
        return answered(reply)

    async def _asked(self, session: Session, name: str, data: Any, form: Form, number: int | None) -> Reply:
        answer = self._sessions.loop.create_future()
        work = partial(self._sessions.fork, session) if name == "fork" else None
        session.call(name, data, form, partial(give, answer), number, work)
        return await answer  # type: ignore[no-any-return]

    async def _data(self, name: str, request: Request) -> Any:
        if name == "state":
            return None
        body = await read_body(request, self._sessions.settings.max_message_bytes)
        data = decode(body) if body else {}
        if not isinstance(data, dict):
            raise ProtocolError(f"the body is {data!r:.80}, not an object")
        if name == "step":
            if "action" not in data:
                raise ProtocolError("the body has no `action`", 'send {"action": …}')
            return data["action"]
        return data

    async def _session(self, request: Request) -> Session:
        named = request.headers.get(SESSION_HEADER)
        return await self._sessions.default() if named is None else self._sessions.find(named)

    async def open(self, request: Request) -> Response:
        self._sessions.start()
        body = await read_body(request, self._sessions.settings.max_message_bytes)
        data = decode(body) if body else {}
        session = await self._sessions.open(read_opening(data, f"{self._sessions.offer.name}#0"))
        session.lease = self._sessions.settings.idle_timeout
        return Response(encode(self._sessions.describe(session, schema=True)), 201, media_type=_JSON)

    async def close(self, request: Request) -> Response:
        self._sessions.start()
        session = self._sessions.find(request.path_params["session_id"])
        return answered(await self._sessions.close(session))


def answered(reply: Reply) -> Response:
    return (
        failed(fault_from_data(decode(reply.body)))
        if reply.type == ERROR
        else Response(reply.body, 200, media_type=_JSON)
    )


def failed(error: EnvWeaveError) -> Response:
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    return Response(http_fault(error), status, media_type=_JSON)


async def read_body(request: Request, most: int) -> bytes:
    """The whole body. Raises `ProtocolError` if it grows over the limit, whatever its header says."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise ProtocolError(f"a body of more than {most} bytes")
        parts.append(part)
    return b"".join(parts)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
        raise ProtocolError(f"{CALL_HEADER} is {text!r:.80}", "number calls 1, 2, 3, …")
    return int(text)

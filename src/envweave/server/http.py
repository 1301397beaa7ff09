"""Plain HTTP: the calls on a session, which a header names. Without it they share one, the default session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from envweave.errors import (
    BusyError,
    CapacityError,
    ClosedError,
    EnvWeaveError,
    ProtocolError,
    ResetNeededError,
    SessionLostError,
    UnavailableError,
    UnsupportedError,
    UsageError,
)
from envweave.server.auth import http_fault
from envweave.server.host import Form, Reply
from envweave.server.mcp import JsonRpc
from envweave.server.reading import read_opening
from envweave.server.session import Session, give
from envweave.server.sessions import RELEASED, Sessions
from envweave.server.streamable import Streamable, speaks_mcp
from envweave.wire.codec import decode, encode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import CALL_HEADER, ERROR, SESSION_HEADER

STATUS: tuple[tuple[type[EnvWeaveError], int], ...] = (
    (ResetNeededError, 409),
    (BusyError, 409),
    (ClosedError, 409),
    (UsageError, 422),
    (ProtocolError, 422),
    (SessionLostError, 404),
    (CapacityError, 503),
    (EnvWeaveError, 500),
)
"""The HTTP status of an error; the first that fits."""

_JSON = "application/json"


Endpoint = Callable[[Request], Awaitable[Response]]


class Routes:
    """The handlers, over the sessions of one server."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.json_rpc = JsonRpc(sessions)
        self.streamable = Streamable(sessions)
        self.shortcuts: dict[tuple[str, str], Endpoint] = {}
        """By method and path, for whoever wants to call an endpoint without the layers of a web framework."""

    def all(self) -> list[Route]:
        """Around FastAPI's argument machinery: it costs more than a step."""
        calls = ("reset", "step", "respond", "render", "tasks", "snapshot", "restore", "fork")
        return [
            *(self._route(f"/{name}", "POST", partial(self.call, name), name) for name in calls),
            self._route("/state", "GET", partial(self.call, "state"), "state"),
            self._route("/sessions", "POST", self.open, "open"),
            self._route("/sessions/{session_id}", "DELETE", self.close, "close"),
            self._route("/mcp", "POST", self.mcp, "mcp"),
        ]

    def _route(self, path: str, method: str, handler: Any, name: str) -> Route:
        async def endpoint(request: Request) -> Response:
            self._sessions.start()
            try:
                return await handler(request)  # type: ignore[no-any-return]
            except TooLarge as error:
                return failed(error.reason, 413)
            except EnvWeaveError as error:
                return failed(error)
            except ClientDisconnect:
                return Response(status_code=400)  # for nobody

        if "{" not in path:  # a path with parameters has to be matched by the router
            self.shortcuts[method, path] = endpoint
        return Route(path, endpoint, methods=[method], name=name)

    async def call(self, name: str, request: Request) -> Response:
        header = request.headers.get(CALL_HEADER)
        number, form = _number(header), Form.OPENENV_HTTP if header is None else Form.EXTENDED
        data = await self._data(name, request)
        session = await self._session(request)
        if number is not None and number not in (session.last_id, session.last_id + 1):
            error = ProtocolError(f"call {number} after call {session.last_id}", "number calls 1, 2, 3, …")
            return failed(error, 409)
        try:
            self._sessions.check_allowed(name)
        except UnsupportedError as error:
            return answered(session.refuse(number, error))
        reply = await self._asked(session, name, data, form, number)
        connection = request.scope.get("extensions", {}).get("envweave")  # where uvicorn runs our own; see `lending`
        if connection is not None and name == "step" and session.is_quick and not session.shared:
            connection.lend_next(self._sessions.express, session, status_and_body)
        return answered(reply)

    async def _asked(self, session: Session, name: str, data: Any, form: Form, number: int | None) -> Reply:
        answer = self._sessions.loop.create_future()
        work = partial(self._sessions.fork, session) if name == "fork" else None
        session.call(name, data, form, partial(give, answer), number, work)
        return await answer  # type: ignore[no-any-return]

    async def _data(self, name: str, request: Request) -> Any:
        if name == "state":
            return None
        data = await self._object(request)
        if name == "step":
            if "action" not in data:
                raise ProtocolError("the body has no `action`", 'send {"action": …}')
            return data["action"]
        return data

    async def _object(self, request: Request) -> dict[str, Any]:
        body = await self._body(request)
        data = decode(body) if body else {}
        if not isinstance(data, dict):
            raise ProtocolError(f"the body is a {type(data).__name__}, not an object")
        return data

    async def _body(self, request: Request) -> bytes:
        """The whole body. Raises `TooLarge` when it grows over the limit, whatever its header says."""
        parts, size, most = [], 0, self._sessions.settings.max_message_bytes
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise TooLarge(ProtocolError(f"a body of more than {most} bytes"))
            parts.append(part)
        return b"".join(parts)

    async def _session(self, request: Request) -> Session:
        named = request.headers.get(SESSION_HEADER)
        if named is None:
            return await self._sessions.default()
        session = self._sessions.find(named)
        if session.owner is None:
            session.lease = self._sessions.settings.idle_timeout
        return session

    async def open(self, request: Request) -> Response:
        data = await self._object(request)
        opening = read_opening(data, f"{self._sessions.offer.name}#0")
        session = await self._sessions.open_or_share(opening)
        session.lease = self._sessions.settings.idle_timeout
        described = self._sessions.describe(session, schema=True)
        if session.shared:
            session.sharers += 1
            described["shared"] = True
        return Response(encode(described), 201, media_type=_JSON)

    async def close(self, request: Request) -> Response:
        session = self._sessions.find(request.path_params["session_id"])
        if session.shared:
            session.sharers = max(0, session.sharers - 1)
            if session.owner is not None:
                return answered(RELEASED)
        return answered(await self._sessions.close(session))

    async def mcp(self, request: Request) -> Response:
        """Two kinds of client come here, told apart by their headers; see `envweave.server.streamable`."""
        note = ""
        if speaks_mcp(request):
            try:
                return Handed(await self.streamable.app())
            except UnavailableError as error:
                note = f"; for MCP itself: {error.message}, {error.hint}"
        body = await self._body(request)
        answer = await self.json_rpc.answer_text(body, request.headers.get(SESSION_HEADER), note=note)
        return Response(answer, media_type=_JSON)


class Handed(Response):
    """The response is another application's business, all of it."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__()
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class TooLarge(Exception):  # noqa: N818  (what is sent is the reason)
    """A body over the limit."""

    def __init__(self, reason: ProtocolError) -> None:
        super().__init__(reason)
        self.reason = reason


def answered(reply: Reply) -> Response:
    """What the session said, as a response."""
    status, body = status_and_body(reply)
    return Response(body, status, media_type=_JSON)


def status_and_body(reply: Reply) -> tuple[int, bytes]:
    if reply.type != ERROR:
        return 200, reply.body
    data = decode(reply.body)
    return status_of(fault_from_data(data)), encode({"detail": data["message"], **data})


def failed(error: EnvWeaveError, status: int | None = None) -> Response:
    """An error as a response, with the status of its class if none is given."""
    return Response(http_fault(error), status or status_of(error), media_type=_JSON)


def status_of(error: EnvWeaveError) -> int:
    return next(status for kind, status in STATUS if isinstance(error, kind))


def _number(text: str | None) -> int | None:
    """0 is for a call without a number: its reply has the extended form all the same."""
    if text is None or text == "0":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
        raise ProtocolError(f"{CALL_HEADER} is {text!r:.80}", "number calls 1, 2, 3, …")
    return int(text)

"""Which session of a vector goes to which server: spread evenly, or as many on each as it takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from envweave.client.connection import ServerConnection, WebSocketSession
from envweave.client.endpoint import ServerEndpoint, SessionSpec
from envweave.client.session import PendingCall
from envweave.client.websocket import WebSocket, open_websocket
from envweave.errors import CapacityError, describe

log = logging.getLogger(__name__)

T = TypeVar("T")


class ServerGroup:
    """The servers of one vector. Those that are started for it stop with `release`."""

    def __init__(
        self, endpoints: Sequence[ServerEndpoint], another: Callable[[], ServerEndpoint] | None = None
    ) -> None:
        """`another` makes one more server for sessions that the others do not take."""
        self.endpoints: list[ServerEndpoint] = []
        self._another = another
        for endpoint in endpoints:
            self._add(endpoint)

    def _add(self, endpoint: ServerEndpoint) -> ServerEndpoint:
        self.endpoints.append(endpoint)
        if endpoint.managed is not None:
            endpoint.managed.acquire()
        return endpoint

    @property
    def can_grow(self) -> bool:
        return self._another is not None

    def grow(self, count: int) -> list[ServerEndpoint]:
        """So many more servers, not started yet; none if the group cannot grow."""
        return [self._add(self._another()) for _ in range(count)] if self._another is not None else []

    async def connect(self, endpoints: Sequence[ServerEndpoint]) -> list[tuple[ServerEndpoint, WebSocket]]:
        """Connect to servers, starting them side by side where necessary; all of them or none."""
        reached = await asyncio.gather(*(_reach(each) for each in endpoints), return_exceptions=True)
        connected = [each for each in reached if not isinstance(each, BaseException)]
        failure = next((each for each in reached if isinstance(each, BaseException)), None)
        if failure is not None:
            for _, socket in connected:
                await socket.close()
            raise failure
        return connected

    async def release(self) -> None:
        """Stop what was started, all at once: none goes on starting while others stop."""
        managed = [each.managed for each in self.endpoints if each.managed is not None]
        self.endpoints = []
        for error in await asyncio.gather(*(each.release() for each in managed), return_exceptions=True):
            if isinstance(error, BaseException):
                log.warning("a server was not stopped, `envweave gc` can: %s", describe(error))


async def _reach(endpoint: ServerEndpoint) -> tuple[ServerEndpoint, WebSocket]:
    running = await endpoint.ensure_running()
    return running, await open_websocket(running)


async def place(
    servers: ServerGroup,
    connected: Sequence[tuple[ServerEndpoint, WebSocket]],
    spec: SessionSpec,
    numbers: Sequence[int],
) -> list[WebSocketSession]:
    """Open a session for each number, on one connection to each server. Opens all or none.

    The sessions are spread evenly over the connected servers; those that they do not take go to further servers, if
    the group can grow. Raises `CapacityError` if there is not enough room.
    """
    connections: list[ServerConnection] = []
    taken: dict[int, WebSocketSession] = {}
    try:
        first, parts = _started(connected, connections), shares(numbers, len(connected))
        head = await first[0].open(_named(spec, numbers[0]))
        if spec.env_id is None:
            spec = replace(spec, env_id=head.opened.env_id)
            head = await _renamed(head, _named(spec, numbers[0]))
        taken[numbers[0]] = head
        refusal = await _fill(first, [parts[0][1:], *parts[1:]], spec, taken)
        room = sum(session.connection is first[0] for session in taken.values())
        while missing := [number for number in numbers if number not in taken]:
            before = len(taken)
            more = await servers.connect(servers.grow(-(-len(missing) // room)))
            opened = _started(more, connections)
            refusal = await _fill(opened, shares(missing, len(opened)), spec, taken) or refusal
            if len(taken) == before:
                raise _no_room(len(missing), len(numbers), refusal)
    except BaseException:
        for connection in connections:
            await connection.close()
        raise
    return [taken[number] for number in numbers]


def _started(
    connected: Sequence[tuple[ServerEndpoint, WebSocket]], connections: list[ServerConnection]
) -> list[ServerConnection]:
    opened = [ServerConnection(endpoint) for endpoint, _ in connected]
    for connection, (_, socket) in zip(opened, connected, strict=True):
        connection.start(socket)
    connections += opened
    return opened


async def _fill(
    connections: Sequence[ServerConnection],
    parts: Sequence[Sequence[int]],
    spec: SessionSpec,
    taken: dict[int, WebSocketSession],
) -> CapacityError | None:
    """Open a session for each number of each part; returns why a server has not taken all of them.

    Raises any other failure, after all have answered, so that nothing is opened behind our back.
    """

    async def open_one(connection: ServerConnection, number: int) -> None:
        taken[number] = await connection.open(_named(spec, number), schema=False)

    pairs = zip(connections, parts, strict=True)
    opening = [open_one(connection, number) for connection, part in pairs for number in part]
    failures = [each for each in await asyncio.gather(*opening, return_exceptions=True) if each is not None]
    refusal: CapacityError | None = None
    for failure in failures:
        if not isinstance(failure, CapacityError):
            raise failure
        refusal = failure
    return refusal


async def _renamed(session: WebSocketSession, spec: SessionSpec) -> WebSocketSession:
    """The session, or another one in its place if it has a different name. It stays until then: it may be the last."""
    if session.opened.env_id == spec.env_id:
        return session
    call = PendingCall("close")
    session.send(call)
    await call.wait(session.connection.endpoint.message_timeout_s)
    call.result()
    renamed = await session.connection.open(spec)
    await session.leave()
    return renamed


def _named(spec: SessionSpec, number: int) -> SessionSpec:
    """The spec for one session. Without a name the server chooses one, for the first session."""
    if spec.env_id is None:
        return spec
    return replace(spec, env_id=f"{spec.env_id.rpartition('#')[0] or spec.env_id}#{number}")


def _no_room(missing: int, count: int, refusal: CapacityError | None) -> CapacityError:
    reason = refusal or CapacityError("no server takes a session")
    hint = reason.hint or "more servers, e.g. containers=…, take more"
    return CapacityError(f"{missing} of {count} environments found no place: {reason.message}", hint)


def shares(numbers: Sequence[T], parts: int) -> list[Sequence[T]]:
    """The numbers in so many parts of the same size, give or take one; none is empty."""
    parts = min(parts, len(numbers))
    if not parts:
        return []
    ends = [len(numbers) * part // parts for part in range(parts + 1)]
    return [numbers[start:end] for start, end in pairwise(ends)]

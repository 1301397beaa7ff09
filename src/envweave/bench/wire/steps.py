"""Steps per second with the same lean client for both servers, over WebSocket and over plain HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import msgspec

from envweave.bench.figure import Figure
from envweave.bench.wire.driven import MESSAGE
from envweave.bench.wire.duel import Crowd, Stepper, duel
from envweave.bench.wire.links import HTTP, WebSocket, opened
from envweave.bench.wire.servers import Pair, Server

RESET = WebSocket.framed(b'{"type":"reset","data":{}}')
STEP = WebSocket.framed(b'{"type":"step","data":{"message":"%b"}}' % MESSAGE.encode())
ACTION = b'{"action":{"message":"%b"}}' % MESSAGE.encode()
ECHO = b'"echoed_message":"%b"' % MESSAGE.encode()

WANTED = {1: 2.0, 64: 3.0, 256: 4.0}
"""Sessions, and how many times OpenEnv's steps they shall make."""


async def over_websocket(pair: Pair, rounds: int) -> list[Figure]:
    """One session for each connection, in OpenEnv's protocol."""
    figures = []
    for count, wanted in WANTED.items():
        with (
            closing(await sessions(pair.ours, count)) as ours,
            closing(await sessions(pair.theirs, count)) as theirs,
        ):
            found = await duel(ours, theirs, rounds=rounds)
        figures.append(found.figure(f"WebSocket, {_sessions(count)} / OpenEnv", at_least=wanted))
    return figures


async def over_http(pair: Pair, rounds: int) -> list[Figure]:
    """Connections that are kept alive. OpenEnv's steps begin anew each time; ours go on in a session."""
    figures = []
    for count in (1, 16):
        with (
            closing(await _requesters(pair.ours, await _own_requests(pair.ours, count))) as ours,
            closing(await _requesters(pair.theirs, [HTTP.framed(ACTION, "/step")] * count)) as theirs,
        ):
            found = await duel(ours, theirs, rounds=rounds)
        what = f"HTTP step, {count} connection{'s' if count > 1 else ''} / OpenEnv"
        figures.append(found.figure(what, at_least=3))
    return figures


async def sessions(server: Server, count: int) -> Crowd:
    """Sessions in OpenEnv's protocol, each on a connection of its own."""

    async def one() -> Stepper:
        link = await WebSocket().open(server.port)
        await link.ask(RESET)
        return Stepper(link, STEP, ECHO)

    return Crowd(server, await opened(count, one))


async def _requesters(server: Server, requests: Sequence[bytes]) -> Crowd:
    return Crowd(server, [Stepper(await HTTP().open(server.port), request, ECHO) for request in requests])


async def _own_requests(server: Server, count: int) -> list[bytes]:
    """One request for each connection: the default session alone, or a session each."""
    link = await HTTP().open(server.port)
    requests = []
    for _ in range(count):
        headers = {}
        if count > 1:
            session = msgspec.json.decode(await link.ask(HTTP.framed(b"{}", "/sessions")))
            headers = {"X_Envweave_Session": session["session_id"]}
        await link.ask(HTTP.framed(b"{}", "/reset", **headers))
        requests.append(HTTP.framed(ACTION, "/step", **headers))
    link.abort()
    return requests


def _sessions(count: int) -> str:
    return f"{count} session{'s' if count > 1 else ''}"

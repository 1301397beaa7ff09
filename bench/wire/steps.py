"""Steps per second with the same minimal client for both servers, over WebSocket and over plain HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import msgspec

from bench.comparison import compare
from bench.figure import Figure
from bench.wire.connections import RawHTTP, RawWebSocket, open_many
from bench.wire.load import ConcurrentRequests, RequestLoop
from bench.wire.servers import EchoServers, ServerProcess
from bench.worker import MESSAGE

RESET = RawWebSocket.frame(b'{"type":"reset","data":{}}')
STEP = RawWebSocket.frame(b'{"type":"step","data":{"message":"%b"}}' % MESSAGE.encode())
ACTION = b'{"action":{"message":"%b"}}' % MESSAGE.encode()
ECHO = b'"echoed_message":"%b"' % MESSAGE.encode()

WANTED = {1: 2.0, 64: 3.0, 256: 4.0}
"""Sessions, and how many times OpenEnv's steps per second they should make."""


async def websocket_steps(servers: EchoServers, rounds: int) -> list[Figure]:
    """One session for each connection, in OpenEnv's protocol."""
    figures = []
    for count, wanted in WANTED.items():
        with (
            closing(await sessions(servers.ours, count)) as ours,
            closing(await sessions(servers.theirs, count)) as theirs,
        ):
            found = await compare(ours, theirs, rounds=rounds)
        figures.append(found.figure(f"WebSocket, {count} session{'s' * (count > 1)} / OpenEnv", at_least=wanted))
    return figures


async def http_steps(servers: EchoServers, rounds: int) -> list[Figure]:
    """Connections that are kept alive. OpenEnv makes a new environment for each step; ours continues a session."""
    figures = []
    for count in (1, 16):
        with (
            closing(await _requests(servers.ours, await _session_requests(servers.ours, count))) as ours,
            closing(await _requests(servers.theirs, [RawHTTP.frame(ACTION, "/step")] * count)) as theirs,
        ):
            found = await compare(ours, theirs, rounds=rounds)
        figures.append(found.figure(f"HTTP step, {count} connection{'s' * (count > 1)} / OpenEnv", at_least=3))
    return figures


async def sessions(server: ServerProcess, count: int) -> ConcurrentRequests:
    """Sessions in OpenEnv's protocol, each on a connection of its own."""

    async def one() -> RequestLoop:
        connection = await RawWebSocket().open(server.port)
        await connection.request(RESET)
        return RequestLoop(connection, STEP, ECHO)

    return ConcurrentRequests(server, await open_many(count, one))


async def _requests(server: ServerProcess, requests: Sequence[bytes]) -> ConcurrentRequests:
    loops = [RequestLoop(await RawHTTP().open(server.port), request, ECHO) for request in requests]
    return ConcurrentRequests(server, loops)


async def _session_requests(server: ServerProcess, count: int) -> list[bytes]:
    """One request for each connection: in the default session if there is one connection, else in a session each."""
    connection = await RawHTTP().open(server.port)
    requests = []
    for _ in range(count):
        headers = {}
        if count > 1:
            session = msgspec.json.decode(await connection.request(RawHTTP.frame(b"{}", "/sessions")))
            headers = {"X_Envweave_Session": session["session_id"]}
        await connection.request(RawHTTP.frame(b"{}", "/reset", **headers))
        requests.append(RawHTTP.frame(ACTION, "/step", **headers))
    connection.abort()
    return requests

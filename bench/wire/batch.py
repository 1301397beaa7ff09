"""Many sessions on one connection: one message for all steps, against one message for each."""

from __future__ import annotations

import asyncio
from contextlib import closing

import msgspec

from bench.comparison import Slice, compare
from bench.figure import Figure
from bench.wire.clients import own_client, own_vector
from bench.wire.connections import TIMEOUT, RawWebSocket
from bench.wire.load import count_slice
from bench.wire.servers import EchoServers, ServerProcess
from bench.wire.steps import sessions
from bench.worker import MESSAGE
from envweave.wire.protocol import RESULT, SUBPROTOCOL

SESSIONS = 256
WANTED = 3.0

_DATA = b'{"message":"%b"}' % MESSAGE.encode()


class ReplyHead(msgspec.Struct):
    """The part of a reply that a client must read."""

    type: str
    ref: int = 0


_read_heads = msgspec.json.Decoder(ReplyHead | list[ReplyHead]).decode


class SharedConnection:
    """A raw connection in our protocol, with many sessions on it. No step is under way between two slices."""

    def __init__(self, server: ServerProcess, connection: RawWebSocket, *, count: int) -> None:
        self._server = server
        self._connection = connection
        self._numbers = [0] * count
        self._steps = 0
        self._unanswered = 0
        """Sessions whose answer has not come."""
        self._in_one = False
        self._running = False
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, server: ServerProcess, *, count: int) -> SharedConnection:
        connection = await RawWebSocket(subprotocol=SUBPROTOCOL).open(server.port)
        shared = cls(server, connection, count=count)
        for ref in range(count):
            await connection.request(connection.frame(b'{"type":"open","ref":%d,"data":{}}' % ref))
            await connection.request(connection.frame(shared._message(ref, b"reset", b"{}")))
        connection.receive, connection.failed = shared._received, shared._failed
        return shared

    async def batch(self, seconds: float) -> Slice:
        """Send all steps in one message, then wait for all answers."""
        return await self._run(seconds, in_one=True)

    async def single(self, seconds: float) -> Slice:
        """Send each step in a message of its own, as soon as the one before it is answered."""
        return await self._run(seconds, in_one=False)

    async def close(self) -> None:
        for ref in range(len(self._numbers)):
            self._connection.transport.write(self._connection.frame(self._message(ref, b"close", b"null")))
        await asyncio.sleep(0.2)
        self._connection.abort()

    async def _run(self, seconds: float, *, in_one: bool) -> Slice:
        self._in_one, self._running = in_one, True
        self._stopped = asyncio.get_running_loop().create_future()
        self._send(range(len(self._numbers)))
        slice = await count_slice(self._server, seconds, lambda: self._steps)
        self._running = False
        await asyncio.wait_for(self._stopped, TIMEOUT)
        return slice

    def _send(self, refs: range | list[int]) -> None:
        self._unanswered += len(refs)
        messages = [self._message(ref, b"step", _DATA) for ref in refs]
        if self._in_one:
            messages = [b'{"type":"batch","data":[%b]}' % b",".join(messages)]
        for message in messages:
            self._connection.transport.write(self._connection.frame(message))

    def _message(self, ref: int, kind: bytes, data: bytes) -> bytes:
        self._numbers[ref] += 1
        return b'{"type":"%b","ref":%d,"id":%d,"data":%b}' % (kind, ref, self._numbers[ref], data)

    def _received(self, frame: bytes) -> None:
        heads = _read_heads(frame)
        if isinstance(heads, ReplyHead):
            heads = [heads]
        for head in heads:
            if head.type != RESULT:
                self._failed(ValueError(f"not a step: {frame[:500]!r}"))
                return
        self._steps += len(heads)
        self._unanswered -= len(heads)
        if self._running and not self._in_one:
            self._send([head.ref for head in heads])
        elif self._running and not self._unanswered:
            self._send(range(len(self._numbers)))
        elif not self._unanswered:
            self._stopped.set_result(None)

    def _failed(self, error: Exception) -> None:
        if not self._stopped.done():
            self._stopped.set_exception(error)


async def batches(servers: EchoServers, rounds: int) -> list[Figure]:
    """A raw client against the same sessions on the same connection, and on a connection each."""
    shared = await SharedConnection.open(servers.ours, count=SESSIONS)
    with closing(await sessions(servers.ours, SESSIONS)) as apart:
        try:
            same = await compare(shared.batch, shared.single, rounds=rounds)
            others = await compare(shared.batch, apart, rounds=rounds)
        finally:
            await shared.close()
    return [
        same.figure(f"batch of {SESSIONS} steps / single messages, raw client", at_least=WANTED),
        others.figure(f"batch of {SESSIONS} steps / {SESSIONS} connections, raw client"),
    ]


async def remote_vector(servers: EchoServers, rounds: int) -> list[Figure]:
    """Our vector against as many of our own single clients, which all run in one process."""
    async with own_vector(servers.ours) as vector, own_client(servers.ours) as single:
        await vector.open(servers.ours.url, SESSIONS)
        await single.open(servers.ours.url, SESSIONS)
        found = await compare(vector, single, rounds=rounds)
    return [found.figure(f"own vector of {SESSIONS} / {SESSIONS} own clients", at_least=WANTED)]

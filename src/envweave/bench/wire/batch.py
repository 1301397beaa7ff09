"""Many sessions on one connection: stepped by one message for all, against a message for each."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing

import msgspec

from envweave.bench.figure import Figure
from envweave.bench.wire.clients import OURS, VECTOR, Client
from envweave.bench.wire.driven import MESSAGE
from envweave.bench.wire.duel import WARM, Slice, duel
from envweave.bench.wire.links import TIMEOUT, WebSocket
from envweave.bench.wire.servers import Pair, Server
from envweave.bench.wire.steps import sessions
from envweave.wire.protocol import RESULT, SUBPROTOCOL

SESSIONS = 256
WANTED = 3.0

_DATA = b'{"message":"%b"}' % MESSAGE.encode()


class Head(msgspec.Struct):
    """What a client must know of a reply."""

    type: str
    ref: int = 0


_heads = msgspec.json.Decoder(Head | list[Head]).decode


class Woven:
    """A connection that speaks the extension, with its sessions. Numbers calls; a slice leaves all of them at rest."""

    def __init__(self, server: Server, link: WebSocket, *, count: int) -> None:
        self._server = server
        self._link = link
        self._numbers = [0] * count
        self._steps = 0
        self._waiting = 0
        """Sessions whose answer is to come."""
        self._in_one = False
        self._running = False
        self._rest: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, server: Server, *, count: int) -> Woven:
        link = await WebSocket(subprotocol=SUBPROTOCOL).open(server.port)
        woven = cls(server, link, count=count)
        for ref in range(count):
            await link.ask(link.framed(b'{"type":"open","ref":%d,"data":{}}' % ref))
            await link.ask(link.framed(woven._message(ref, b"reset", b"{}")))
        link.receive, link.failed = woven._received, woven._failed
        return woven

    async def batch(self, seconds: float) -> Slice:
        """All in one message, then wait for all."""
        return await self._run(seconds, in_one=True)

    async def single(self, seconds: float) -> Slice:
        """A message for each, sent as soon as the one before is answered."""
        return await self._run(seconds, in_one=False)

    async def close(self) -> None:
        for ref in range(len(self._numbers)):
            self._link.transport.write(self._link.framed(self._message(ref, b"close", b"null")))
        await asyncio.sleep(0.2)
        self._link.abort()

    async def _run(self, seconds: float, *, in_one: bool) -> Slice:
        self._in_one, self._running = in_one, True
        self._rest = asyncio.get_running_loop().create_future()
        self._send(range(len(self._numbers)))
        await asyncio.sleep(WARM)
        steps, cpu, began = self._steps, self._server.cpu_seconds(), time.perf_counter()
        await asyncio.sleep(seconds)
        slice = Slice(self._steps - steps, time.perf_counter() - began, self._server.cpu_seconds() - cpu)
        self._running = False
        await asyncio.wait_for(self._rest, TIMEOUT)
        return slice

    def _send(self, refs: range | list[int]) -> None:
        self._waiting += len(refs)
        messages = [self._message(ref, b"step", _DATA) for ref in refs]
        if self._in_one:
            messages = [b'{"type":"batch","data":[%b]}' % b",".join(messages)]
        for message in messages:
            self._link.transport.write(self._link.framed(message))

    def _message(self, ref: int, kind: bytes, data: bytes) -> bytes:
        self._numbers[ref] += 1
        return b'{"type":"%b","ref":%d,"id":%d,"data":%b}' % (kind, ref, self._numbers[ref], data)

    def _received(self, frame: bytes) -> None:
        heads = _heads(frame)
        if isinstance(heads, Head):
            heads = [heads]
        for head in heads:
            if head.type != RESULT:
                self._failed(ValueError(f"not a step: {frame[:500]!r}"))
                return
        self._steps += len(heads)
        self._waiting -= len(heads)
        if self._running and not self._in_one:
            self._send([head.ref for head in heads])
        elif self._running and not self._waiting:
            self._send(range(len(self._numbers)))
        elif not self._waiting:
            self._rest.set_result(None)

    def _failed(self, error: Exception) -> None:
        if not self._rest.done():
            self._rest.set_exception(error)


async def batches(pair: Pair, rounds: int) -> list[Figure]:
    """Against the same sessions on the same connection, and against as many connections."""
    woven = await Woven.open(pair.ours, count=SESSIONS)
    with closing(await sessions(pair.ours, SESSIONS)) as apart:
        try:
            same = await duel(woven.batch, woven.single, rounds=rounds)
            others = await duel(woven.batch, apart, rounds=rounds)
        finally:
            await woven.close()
    return [
        same.figure(f"batch of {SESSIONS} steps / single messages, raw client", at_least=WANTED),
        others.figure(f"batch of {SESSIONS} steps / {SESSIONS} connections, raw client"),
        await _vector(pair, rounds),
    ]


async def _vector(pair: Pair, rounds: int) -> Figure:
    async with Client(pair.ours, VECTOR) as vector, Client(pair.ours, OURS) as single:
        await vector.open(SESSIONS)
        await single.open(SESSIONS)
        found = await duel(vector, single, rounds=rounds)
    return found.figure(f"own vector of {SESSIONS} / {SESSIONS} own clients", at_least=WANTED)

"""Each server with its own client, a process each."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, Self

from envweave.bench.figure import Figure
from envweave.bench.wire.duel import Slice, duel
from envweave.bench.wire.servers import PEERS, Pair, Server

OPENENV = (str(PEERS / "openenv_client.py"),)
OURS = ("-m", "envweave.bench.wire.own_client")
VECTOR = ("-m", "envweave.bench.wire.own_vector")

WANTED = {1: 2.0, 64: 3.0}


class Client:
    """A client process with its sessions on a server: a contender. Use it in an `async with`."""

    def __init__(self, server: Server, program: tuple[str, ...], *, count: int) -> None:
        self._server = server
        self._program = program
        self._count = count
        self._process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._program, stdin=pipe, stdout=pipe, limit=2**20
        )
        try:
            await self._read()
            await self._tell(f"open {self._server.url} {self._count}")
        except BaseException:
            self._process.kill()
            raise
        return self

    async def __call__(self, seconds: float) -> Slice:
        cpu = self._server.cpu_seconds()
        steps, passed = await self._tell(f"run {seconds}")
        return Slice(steps, passed, self._server.cpu_seconds() - cpu)

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._tell("close")
        finally:
            self._process.kill()
            await self._process.wait()

    async def _tell(self, command: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        return await self._read()

    async def _read(self) -> Any:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        if not line:
            raise RuntimeError(f"the client {self._program[-1]} ended; see above")
        return json.loads(line)


async def own_clients(pair: Pair, rounds: int) -> list[Figure]:
    """OpenEnv's `GenericEnvClient` against its server, our `EnvClient` against ours; both with `await`."""
    figures = []
    for count, wanted in WANTED.items():
        async with (
            Client(pair.ours, OURS, count=count) as ours,
            Client(pair.theirs, OPENENV, count=count) as theirs,
        ):
            found = await duel(ours, theirs, rounds=rounds)
        what = f"own clients, {count} session{'s' if count > 1 else ''} / OpenEnv's"
        figures.append(found.figure(what, at_least=wanted))
    return figures

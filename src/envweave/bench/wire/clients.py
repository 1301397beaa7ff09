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
    """A client process and its sessions on a server: a contender, once they are open. Use it in an `async with`."""

    def __init__(self, server: Server, program: tuple[str, ...]) -> None:
        self._server = server
        self._program = program
        self._process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._program, stdin=pipe, stdout=pipe, limit=2**20
        )
        try:
            await self._read()
        except BaseException:
            await self._end()
            raise
        return self

    async def __call__(self, seconds: float) -> Slice:
        cpu = self._server.cpu_seconds()
        steps, passed, client_cpu = await self._tell(f"run {seconds}")
        return Slice(steps, passed, self._server.cpu_seconds() - cpu, client_cpu)

    async def open(self, count: int) -> None:
        """Open so many sessions, and reset them."""
        await self._tell(f"open {self._server.url} {count}")

    async def close(self) -> None:
        await self._tell("close")

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def _end(self) -> None:
        """It has nothing to lose: sessions that are still open are the server's to close."""
        try:
            self._process.kill()
        except ProcessLookupError:
            pass
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
    async with Client(pair.ours, OURS) as ours, Client(pair.theirs, OPENENV) as theirs:
        for count, wanted in WANTED.items():
            await ours.open(count)
            await theirs.open(count)
            found = await duel(ours, theirs, rounds=rounds)
            await ours.close()
            await theirs.close()
            what = f"own clients, {count} session{'s' if count > 1 else ''} / OpenEnv's"
            figures.append(found.figure(what, at_least=wanted))
    return figures

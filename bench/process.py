"""The outside of a worker process: start it, send commands, stop it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any, Self

from bench.comparison import Slice

TIMEOUT = 60.0
"""Seconds that a single command may take."""


class WorkerProcess:
    """A Python process that runs steps: a runner, once something is open. Use it in an `async with`."""

    def __init__(self, *arguments: str, server_cpu_seconds: Callable[[], float] | None = None) -> None:
        """`arguments` are the interpreter's. The other function gives the CPU time of the server that it steps."""
        self._arguments = arguments
        self._server_cpu_seconds = server_cpu_seconds or (lambda: 0.0)
        self._process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._arguments, stdin=pipe, stdout=pipe, limit=2**20
        )
        try:
            await self._read()
        except BaseException:
            await self._end()
            raise
        return self

    async def __call__(self, seconds: float) -> Slice:
        before = self._server_cpu_seconds()
        steps, passed, cpu = await self._command(f"run {seconds}")
        return Slice(steps, passed, self._server_cpu_seconds() - before, cpu)

    async def open(self, *arguments: object) -> None:
        await self._command(" ".join(["open", *map(str, arguments)]))

    async def close(self) -> None:
        await self._command("close")

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def _end(self) -> None:
        """Kill it. A server closes the sessions that are still open."""
        try:
            self._process.kill()
        except ProcessLookupError:
            pass
        await self._process.wait()

    async def _command(self, command: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        return await self._read()

    async def _read(self) -> Any:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), TIMEOUT)
        if not line:
            raise RuntimeError(f"the worker process {self._arguments[-1]} ended; its error is above")
        return json.loads(line)

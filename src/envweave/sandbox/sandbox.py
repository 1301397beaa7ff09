"""The front of the room: say once how code is to be held, and start as many sessions as you like."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Literal

from envweave.errors import ClosedError, IsolationError, UsageError
from envweave.sandbox.base import AfterKill, Boundary
from envweave.sandbox.calls import Tools
from envweave.sandbox.checks import check_tools, contents
from envweave.sandbox.core import Core
from envweave.sandbox.limits import Limits
from envweave.sandbox.living import Living
from envweave.sandbox.pool import Pool
from envweave.sandbox.process import TIERS, Isolation
from envweave.sandbox.report import Report
from envweave.sandbox.seat import Seat
from envweave.sandbox.session import AsyncSession, Session
from envweave.sandbox.sharing import Lease, boundary_for
from envweave.sandbox.waiting import BLOCKING, LOOPING, Wait, drive, whole

Backend = Literal["process", "docker", "local"]

_TAKES = {
    "process": {"isolation", "min_isolation", "preload", "forks", "python", "readable"},
    "docker": {"preload", "image", "cpus"},
    "local": {"preload", "python"},
}


class Sandbox:
    """Starts sessions. A context manager: what it has started ends with it.

    `tools` are functions of this side that code inside calls by name; `files` lie in each session's work folder.
    `isolation="auto"` takes the strongest walls that work here, and `min_isolation` refuses to do with less.
    `after_kill` says what becomes of a session whose code had to be killed: `restart` keeps its files, `rollback` makes
    each run a transaction (some milliseconds for each), `end` ends it. `preload` names modules that are imported once
    and shared by all sessions; `pool` keeps that many sessions ready. `readable` are further paths that code may read,
    `python` is another interpreter than this one; `image` and `cpus` are for containers.
    """

    def __init__(
        self,
        backend: Backend = "process",
        *,
        limits: Limits | None = None,
        tools: Tools | None = None,
        files: Mapping[str, bytes | str] | None = None,
        isolation: Isolation = "auto",
        min_isolation: str | None = None,
        after_kill: AfterKill = "restart",
        preload: Iterable[str] = (),
        pool: int = 0,
        forks: bool = True,
        python: str | None = None,
        readable: Iterable[str] = (),
        image: str | None = None,
        cpus: float | None = None,
    ) -> None:
        self.backend = _one_of("backend", backend, ("process", "docker", "local"))
        self.limits = limits or Limits()
        self.tools = dict(tools or {})
        check_tools(self.tools)
        self.files = {str(path): contents(path, data) for path, data in (files or {}).items()}
        self.after_kill: AfterKill = _one_of("after_kill", after_kill, ("restart", "rollback", "end"))
        _one_of("isolation", isolation, ("auto", *TIERS))
        _one_of("min_isolation", min_isolation, (None, *TIERS))
        if isolation != "auto" and min_isolation and TIERS.index(isolation) < TIERS.index(min_isolation):
            contradiction = f"isolation is {isolation!r} and min_isolation {min_isolation!r}"
            raise IsolationError(contradiction, "leave one of them out")
        if isinstance(pool, bool) or not isinstance(pool, int) or pool < 0:
            raise UsageError(f"pool is {pool!r}", "it is how many sessions are kept ready")
        if cpus is not None and (isinstance(cpus, bool) or not isinstance(cpus, int | float) or not 0.01 <= cpus < 1e6):
            raise UsageError(f"cpus is {cpus!r}", "it is how many processors a container may keep busy, 0.01 or more")
        self._options = self._own(
            isolation=(isolation, "auto"),
            min_isolation=(min_isolation, None),
            preload=(_names("preload", preload), ()),
            forks=(forks, True),
            python=(python, None),
            readable=(_names("readable", readable), ()),
            image=(image, None),
            cpus=(cpus, None),
        )
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._pool = Pool(self, pool) if pool else None
        self._living = Living()
        self._closed = False
        self._pid = os.getpid()

    def _own(self, **options: tuple[Any, Any]) -> dict[str, Any]:
        """Options that were given, each of which the backend must know: a wall that was asked for is never left out."""
        given = {name: value for name, (value, default) in options.items() if value != default}
        for name in given:
            if name not in _TAKES[self.backend]:
                takes = ", ".join(sorted(_TAKES[self.backend]))
                raise UsageError(f"{name} means nothing to the backend {self.backend!r}", f"it takes {takes}")
        return given

    def start(self, *, tools: Tools | None = None, files: Mapping[str, bytes | str] | None = None) -> Session:
        """A new session; `tools` and `files` of its own come to those of the sandbox."""
        return Session(drive(self._start(BLOCKING, tools, files)))

    @property
    def aio(self) -> AsyncSandbox:
        """The same sandbox for `await`."""
        return AsyncSandbox(self)

    def report(self) -> Report:
        """Which walls stand around its sessions, and why others do not."""
        return self.boundary().report()

    def boundary(self) -> Boundary:
        """What holds the sessions; made when it is first needed."""
        if self._pid != os.getpid():
            raise UsageError("a sandbox cannot be used in a forked process", "make one there")
        with self._lock:
            if self._closed:
                raise ClosedError("the sandbox is closed")
            if self._lease is not None and not self._lease.boundary.alive:
                self._lease.release()
                self._lease = None
            if self._lease is None:
                self._lease = boundary_for(self.backend, self._options)
                if self._pool is not None:
                    self._pool.begin()
            return self._lease.boundary

    async def _start(
        self, wait: Wait, tools: Tools | None = None, files: Mapping[str, bytes | str] | None = None
    ) -> Core:
        chosen = {**self.tools, **(tools or {})}
        check_tools(chosen)
        lying = {**self.files, **{str(path): contents(path, data) for path, data in (files or {}).items()}}
        boundary = self.boundary() if wait is BLOCKING else await asyncio.to_thread(self.boundary)
        seat = self._pool.take() if self._pool is not None else None
        if seat is None:
            seat = await Seat.take(wait, boundary, self.limits)
        core = await Core.take(wait, seat, chosen, self.after_kill, self._living)
        try:
            await core.furnish(wait, lying)
        except BaseException:
            await core.close(wait)
            raise
        return core

    def close(self) -> None:
        """End all its sessions. Safe to call twice."""
        with self._lock:
            if self._closed or self._pid != os.getpid():
                return
            self._closed = True
        if self._pool is not None:
            self._pool.close()
        with ExitStack() as ends:  # one that fails does not keep the others from ending
            if self._lease is not None:
                ends.callback(self._lease.release)
            for core in self._living.end():
                ends.callback(_close, core)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSandbox:
    """A sandbox on an event loop."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def start(
        self, *, tools: Tools | None = None, files: Mapping[str, bytes | str] | None = None
    ) -> AsyncSession:
        start = self._sandbox._start(LOOPING, tools, files)
        return AsyncSession(await whole(LOOPING, start, undo=lambda core: core.close(LOOPING)))

    async def report(self) -> Report:
        return await asyncio.to_thread(self._sandbox.report)

    async def close(self) -> None:
        await asyncio.to_thread(self._sandbox.close)

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _close(core: Core) -> None:
    drive(core.close(BLOCKING))


def _one_of(what: str, value: Any, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise UsageError(f"{what} is {value!r}", f"it is one of {', '.join(map(str, known))}")
    return value


def _names(what: str, values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise UsageError(f"{what} is {values!r}", f"write {what}=({values!r},)")
    return tuple(values)

"""A session: variables, functions, imports and files that last from run to run."""

from __future__ import annotations

import keyword
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from envweave.core.jsonable import to_json
from envweave.errors import BusyError, ClosedError, SandboxError, SessionEndedError, UsageError
from envweave.sandbox.base import AfterKill, ExecutionResult, State
from envweave.sandbox.calls import Calls, Tools
from envweave.sandbox.exchange import Outcome
from envweave.sandbox.guest.frames import Hangup, Message
from envweave.sandbox.limits import LimitHit
from envweave.sandbox.outcome import read_value, to_result
from envweave.sandbox.seat import Seat
from envweave.sandbox.waiting import BLOCKING, LOOPING, Wait, drive

_MOST_FILES = 10_000
_UNSET: Any = object()


class Core:
    """What both faces of a session do. One call at a time; a second one is refused and changes nothing."""

    def __init__(self, seat: Seat, tools: Tools, after_kill: AfterKill, on_close: Callable[[Core], None]) -> None:
        self.seat = seat
        self.limits = seat.limits
        self.calls = Calls(tools, seat.limits)
        self.after_kill = after_kill
        self.closed = False
        self.ended = ""
        """Why there is nothing left to run code in."""
        self._on_close = on_close
        self._busy = threading.Lock()
        self._running = False
        self._pid = os.getpid()

    @asynccontextmanager
    async def _turn(self, wait: Wait) -> AsyncIterator[None]:
        """The right to use the session, which must be alive and have caught up with what was cancelled."""
        if self._pid != os.getpid():
            raise UsageError("a session cannot be used in a forked process", "start one there")
        if not self._busy.acquire(blocking=False):
            raise BusyError("the session is busy")
        try:
            if self.closed:
                raise ClosedError("the session is closed")
            if self.ended:
                raise SessionEndedError(f"the session has ended: {self.ended}", "start a new one")
            try:
                left = await self.seat.catch_up(wait)
                if left is not None and left.answer is None:
                    await self._after_kill(wait, None)
                yield
            except Hangup:
                self.ended = self.ended or "its supervisor is gone"
                raise SessionEndedError(f"the session has ended: {self.ended}", "start a new one") from None
        finally:
            self._busy.release()

    async def run(self, wait: Wait, code: str, timeout: Any = _UNSET) -> ExecutionResult:
        if not isinstance(code, str):
            raise UsageError(f"code is text, not {type(code).__name__}")
        wall = self.limits.wall if timeout is _UNSET else timeout
        if wall is not None and (isinstance(wall, bool) or not isinstance(wall, int | float) or not wall > 0):
            raise UsageError(f"a timeout of {timeout!r}", "it is more than 0 seconds, or None for no limit")
        async with self._turn(wait):
            backup = await self._backup(wait) if self.after_kill == "rollback" else None
            try:
                blob = code.encode("utf-8", "surrogatepass")
                outcome = await self._ask(wait, {"op": "run"}, blob, wall)
                hit = outcome.limit or self.calls.hit
                if outcome.answer is not None:
                    return to_result(outcome, self.limits, hit=hit, state="kept")
                if hit is None and self.seat.group is not None and self.seat.group.killed():
                    hit = LimitHit("memory_bytes", self.limits.memory_bytes or 0)
                spare, backup = backup, None
                return to_result(outcome, self.limits, hit=hit, state=await self._after_kill(wait, spare))
            finally:
                if backup is not None:
                    await backup.close(wait)

    async def _ask(self, wait: Wait, question: Message, blob: bytes, wall: float | None) -> Outcome:
        self._running = True
        try:
            return await self.seat.ask(wait, self.calls, question, blob, wall)
        finally:
            self._running = False

    async def _backup(self, wait: Wait) -> Seat | None:
        """The state before a run; None where it cannot be had twice."""
        try:
            return await self.seat.branch(wait)
        except UsageError:
            return None

    async def _after_kill(self, wait: Wait, backup: Seat | None) -> State:
        """The worker is lost, or must go. What the policy says becomes of the session."""
        try:
            await self.seat.end_processes(wait)
            if backup is not None:
                lost, self.seat = self.seat, backup
                await lost.close(wait)
                return "rolled_back"
            if self.after_kill == "end":
                self.ended = "its code was killed"
                return "ended"
            await self.seat.spawn(wait)
            await self.seat.hand_tools(wait, self.calls)
            return "restarted"
        except (Hangup, SandboxError):
            self.ended = "its supervisor is gone"
            return "ended"

    async def _value(self, wait: Wait, question: Message) -> Outcome:
        """A small question, which may run code of the session all the same: a `__repr__`."""
        async with self._turn(wait):
            outcome = await self._ask(wait, question, b"", self.limits.wall)
            if outcome.answer is not None and "error" not in outcome.answer:
                return outcome
            state: State = "kept" if outcome.answer is not None else await self._after_kill(wait, None)
            result = to_result(outcome, self.limits, hit=None, state=state)
            raise SandboxError(f"the session did not answer: {result.exception}", f"its state is {state}")

    async def variables(self, wait: Wait) -> dict[str, str]:
        found = read_value(await self._value(wait, {"op": "variables"}))
        return found if isinstance(found, dict) else {}

    async def get(self, wait: Wait, name: str) -> Any:
        outcome = await self._value(wait, {"op": "get", "name": check_name(name)})
        if (outcome.answer or {}).get("missing"):
            raise UsageError(f"no variable named {name!r}", "session.variables() lists them")
        return read_value(outcome)

    async def set(self, wait: Wait, name: str, value: Any) -> None:
        data = to_json(value, where=name)
        await self._value(wait, {"op": "set", "values": {check_name(name): data}})

    async def read_file(self, wait: Wait, path: str) -> bytes:
        most = self.limits.disk_bytes or 1 << 29
        async with self._turn(wait):
            return (await self.seat.files(wait, "read", path=str(path), limit=most))[1]

    async def write_file(self, wait: Wait, path: str, data: bytes | str) -> None:
        blob = data.encode() if isinstance(data, str) else bytes(data)
        async with self._turn(wait):
            await self.seat.files(wait, "write", blob, path=str(path))

    async def list_files(self, wait: Wait) -> dict[str, int]:
        async with self._turn(wait):
            answer, _ = await self.seat.files(wait, "list", most=_MOST_FILES)
            return {str(path): int(size) for path, size in answer["files"].items()}

    async def fork(self, wait: Wait) -> Core:
        async with self._turn(wait):
            return self._copy(await self.seat.branch(wait))

    def _copy(self, seat: Seat) -> Core:
        return Core(seat, self.calls.tools, self.after_kill, self._on_close)

    async def restore(self, wait: Wait, snapshot: Core) -> None:
        async with snapshot._turn(wait):
            seat = await snapshot.seat.branch(wait)
        try:
            if self.closed:
                raise ClosedError("the session is closed")
            if not self._busy.acquire(blocking=False):
                raise BusyError("the session is busy")
        except BaseException:
            await seat.close(wait)
            raise
        try:
            lost, self.seat, self.ended = self.seat, seat, ""
            await lost.close(wait)
        finally:
            self._busy.release()

    async def interrupt(self, wait: Wait) -> bool:
        if not self._running:
            return False
        try:
            await self.seat.supervision.tell(wait, "interrupt")
        except Hangup:
            return False
        return True

    async def close(self, wait: Wait) -> None:
        if self.closed:
            return
        self.closed = True
        if self._pid != os.getpid():  # a forked process has no part in it
            return
        self.calls.close()
        await self.seat.close(wait)
        self._on_close(self)


def check_name(name: str) -> str:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is not a name of a variable")
    return name


class Session:
    """Code runs here, one run after the other. Not for two threads at once; `interrupt` may come from any."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def run(self, code: str, timeout: float | None = _UNSET) -> ExecutionResult:
        """Run code to its end, or to the limit it hits; without a timeout of its own, `limits.wall` holds."""
        return drive(self._core.run(BLOCKING, code, timeout))

    def variables(self) -> dict[str, str]:
        """Names that the code has defined, with the type of each."""
        return drive(self._core.variables(BLOCKING))

    def get(self, name: str) -> Any:
        """The value of a variable: as data where it is JSON, else as a bounded `repr`."""
        return drive(self._core.get(BLOCKING, name))

    def set(self, name: str, value: Any) -> None:
        """Give a variable a value, which must be data."""
        drive(self._core.set(BLOCKING, name, value))

    def interrupt(self) -> bool:
        """Stop what is being run, as Ctrl-C would. False if nothing is."""
        return drive(self._core.interrupt(BLOCKING))

    def fork(self) -> Session:
        """An independent session with the same live state. Raises `UnsupportedError` naming what cannot be in two places."""
        return Session(drive(self._core.fork(BLOCKING)))

    def snapshot(self) -> Snapshot:
        """The state as it is now, to come back to any number of times. It takes the place of a fork until closed."""
        return Snapshot(drive(self._core.fork(BLOCKING)))

    def restore(self, snapshot: Snapshot) -> None:
        """Be as the snapshot is, variables and files. What has happened since is gone."""
        drive(self._core.restore(BLOCKING, snapshot._core))

    def read_file(self, path: str) -> bytes:
        """A file of the work folder. No symbolic link is followed."""
        return drive(self._core.read_file(BLOCKING, path))

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file of the work folder, and the folders it lies in."""
        drive(self._core.write_file(BLOCKING, path, data))

    def list_files(self) -> dict[str, int]:
        """The files of the work folder by path, with their sizes."""
        return drive(self._core.list_files(BLOCKING))

    def close(self) -> None:
        """End it, with all its processes and files. Safe to call twice."""
        drive(self._core.close(BLOCKING))

    @property
    def aio(self) -> AsyncSession:
        """The same session for `await`."""
        return AsyncSession(self._core)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSession:
    """A session on an event loop; each method is as on `Session`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def run(self, code: str, timeout: float | None = _UNSET) -> ExecutionResult:
        return await self._core.run(LOOPING, code, timeout)

    async def variables(self) -> dict[str, str]:
        return await self._core.variables(LOOPING)

    async def get(self, name: str) -> Any:
        return await self._core.get(LOOPING, name)

    async def set(self, name: str, value: Any) -> None:
        await self._core.set(LOOPING, name, value)

    async def interrupt(self) -> bool:
        return await self._core.interrupt(LOOPING)

    async def fork(self) -> AsyncSession:
        return AsyncSession(await self._core.fork(LOOPING))

    async def snapshot(self) -> Snapshot:
        return Snapshot(await self._core.fork(LOOPING))

    async def restore(self, snapshot: Snapshot) -> None:
        await self._core.restore(LOOPING, snapshot._core)

    async def read_file(self, path: str) -> bytes:
        return await self._core.read_file(LOOPING, path)

    async def write_file(self, path: str, data: bytes | str) -> None:
        await self._core.write_file(LOOPING, path, data)

    async def list_files(self) -> dict[str, int]:
        return await self._core.list_files(LOOPING)

    async def close(self) -> None:
        await self._core.close(LOOPING)

    @property
    def sync(self) -> Session:
        return Session(self._core)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Snapshot:
    """A parked fork. It runs nothing and costs little, and lasts as long as its sandbox, or until it is closed."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def start(self) -> Session:
        """A new session that begins here."""
        return self._session().fork()

    def close(self) -> None:
        self._session().close()

    def _session(self) -> Session:
        return Session(self._core)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_tools(tools: Tools) -> None:
    """Names that code can call, and things that can be called."""
    for name, tool in tools.items():
        if not callable(tool):
            raise UsageError(f"the tool {check_name(name)!r} cannot be called: it is a {type(tool).__name__}")
        check_name(name)



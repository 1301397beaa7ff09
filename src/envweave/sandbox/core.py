"""What a session does, written once for both of its faces: turns, policies after a kill, forks."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from envweave.core.jsonable import to_json
from envweave.errors import BusyError, ClosedError, NotJSONableError, SandboxError, SessionEndedError, UsageError
from envweave.sandbox.base import AfterKill, ExecutionResult, Inspection, State
from envweave.sandbox.branching import branch
from envweave.sandbox.calls import Calls, Tools
from envweave.sandbox.checks import check_name, check_tools, contents
from envweave.sandbox.exchange import Outcome
from envweave.sandbox.files import filed
from envweave.sandbox.guest.frames import Hangup, Message
from envweave.sandbox.limits import LimitHit
from envweave.sandbox.living import Living
from envweave.sandbox.outcome import clean, read_value, texts, to_inspection, to_result
from envweave.sandbox.seat import Seat
from envweave.sandbox.waiting import Wait, whole

_MOST_FILES = 100_000
_LARGEST_FILE = 1 << 29
_PATIENCE = 30.0
_LONG_TEXT = 1 << 16
"""Characters; a text from this length on lies in a file and not in a message."""
_LONG = 0.002
"""Seconds in which nobody can run out of memory."""
UNSET: Any = object()
"""No timeout of its own: the limit holds. None is no limit."""


class _Turn:
    """One caller's use of a session."""

    __slots__ = ("_core", "_wait")

    def __init__(self, core: Core, wait: Wait) -> None:
        self._core, self._wait = core, wait

    async def __aenter__(self) -> None:
        await self._core.enter(self._wait)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._core.leave()
        if kind is Hangup:
            self._core.lose()


class Core:
    """What both faces of a session do. One call at a time; a second one is refused and changes nothing."""

    def __init__(self, seat: Seat, tools: Tools, after_kill: AfterKill, living: Living) -> None:
        self.seat = seat
        self.limits = seat.limits
        self.calls = Calls(tools, seat.limits)
        self.after_kill = after_kill
        self.closed = False
        self.ended = ""
        """Why there is nothing left to run code in."""
        self.births = 1
        """How many interpreters it has had; a new one knows the tools, and nothing else."""
        self._living = living
        self._busy = threading.Lock()
        self._closing = threading.Lock()
        self._vacated = False
        self._running = False
        self._pid = os.getpid()
        try:
            living.add(self)
        except BaseException:
            self.calls.close()
            raise

    @classmethod
    async def take(cls, wait: Wait, seat: Seat, tools: Tools, after_kill: AfterKill, living: Living) -> Core:
        """A session on a seat, which is closed if there can be none."""
        try:
            return cls(seat, tools, after_kill, living)
        except BaseException as error:
            await seat.close(wait)
            if isinstance(error, OSError):
                raise SandboxError(f"no session: {error}") from None
            raise

    async def furnish(self, wait: Wait, files: Mapping[str, bytes]) -> None:
        """What is there before the first run."""
        async with self._turn(wait):
            for path, data in files.items():
                await self.seat.files(wait, "write", data, path=path)
            await self.seat.hand_tools(wait, self.calls)

    def _turn(self, wait: Wait) -> _Turn:
        """The right to use the session, for the length of a context."""
        return _Turn(self, wait)

    async def enter(self, wait: Wait) -> None:
        """Begin a turn: the session must be free and alive, and have caught up with what was cancelled."""
        self._check()
        if not self._busy.acquire(blocking=False):
            raise BusyError("the session is busy")
        try:
            if self.ended:
                raise SessionEndedError(f"the session has ended: {self.ended}", "start a new one")
            if self.seat.open_question is not None:
                await self._catch_up(wait)
        except BaseException:
            self._busy.release()
            raise

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise UsageError("a session cannot be used in a forked process", "start one there")
        if self.closed:
            raise ClosedError("the session is closed")

    async def _catch_up(self, wait: Wait) -> None:
        try:
            left = await self.seat.catch_up(wait)
            if left.answer is None:
                state = await whole(wait, self._after_kill(wait, None))
                told = "the code whose run was cancelled did not stop and was killed"
                raise SandboxError(told, f"the session is {state}; call again")
        except Hangup:
            self.lose()

    def leave(self) -> None:
        self._busy.release()

    def lose(self) -> NoReturn:
        """The supervisor is gone, and the session with it."""
        self.ended = self.ended or "its supervisor is gone"
        raise SessionEndedError(f"the session has ended: {self.ended}", "start a new one") from None

    async def run(self, wait: Wait, code: str, timeout: Any = UNSET) -> ExecutionResult:
        return (await self._run(wait, code, timeout, None))[0]

    async def run_and_inspect(
        self,
        wait: Wait,
        code: str,
        timeout: Any,
        names: Sequence[str],
        expression: str | None,
        longest: int,
        most: int | None,
    ) -> tuple[ExecutionResult, Inspection | None]:
        question = {**self._described(longest, most), "op": "inspect", "names": [check_name(name) for name in names]}
        question["expression"] = expression
        return await self._run(wait, code, timeout, question)

    async def _run(
        self, wait: Wait, code: str, timeout: Any, then: Message | None
    ) -> tuple[ExecutionResult, Inspection | None]:
        if not isinstance(code, str):
            raise UsageError(f"code is text, not {type(code).__name__}")
        wall = self.limits.wall if timeout is UNSET else timeout
        if wall is not None and (isinstance(wall, bool) or not isinstance(wall, int | float) or not 0 < wall < 1e18):
            raise UsageError(f"a timeout of {timeout!r}", "it is more than 0 seconds, or None for no limit")
        async with self._turn(wait):
            backup = await self._backup(wait) if self.after_kill == "rollback" else None
            try:
                blob = code.encode("utf-8", "surrogatepass")
                outcome = await self._ask(wait, {"op": "run"}, blob, wall, then=then)
                hit = outcome.limit or self.calls.hit
                if hit is None and "error" in (outcome.answer or ()):
                    hit = await self._full(wait, outcome)
                if hit is None and outcome.duration > _LONG and self.seat.out_of_memory():  # of a child, perhaps
                    hit = LimitHit("memory_bytes", self.limits.memory_bytes or 0)
                last = outcome if then is None or outcome.answer is None else await self._ask(wait, None)
                state: State = "kept"
                if last.answer is None:
                    spare, backup = backup, None
                    state = await whole(wait, self._after_kill(wait, spare))
                found = to_inspection(last, self.limits) if last is not outcome else None
                return to_result(outcome, self.limits, hit=hit, state=state), found
            finally:
                if backup is not None:
                    await backup.close(wait)

    async def _full(self, wait: Wait, outcome: Outcome) -> LimitHit | None:
        """No space left may mean too many files."""
        error = (outcome.answer or {}).get("error")
        if self.limits.files is None or not isinstance(error, dict) or error.get("errno") != errno.ENOSPC:
            return None
        room, _ = await self.seat.supervision.ask(wait, "room")
        return LimitHit("files", self.limits.files) if room.get("files") == 0 else None

    async def _ask(
        self,
        wait: Wait,
        question: Message | None,
        blob: bytes = b"",
        wall: float | None = None,
        descriptors: Sequence[int] = (),
        then: Message | None = None,
    ) -> Outcome:
        """Ask the worker; without a question, wait for what comes of the last one's `then`."""
        self._running = True
        try:
            if self.closed:  # whoever closes looks at `_running` after it has set this: one of us sees the other
                raise ClosedError("the session is closed")
            if question is None:
                return await self.seat.ask_next(wait)
            return await self.seat.ask(wait, self.calls, question, blob, wall, descriptors, then)
        finally:
            self._running = False

    async def _backup(self, wait: Wait) -> Seat | None:
        """The state before a run; None where it cannot be had twice."""
        try:
            return await whole(wait, branch(wait, self.seat), undo=lambda seat: seat.close(wait))
        except (UsageError, SandboxError, OSError):
            return None

    async def _after_kill(self, wait: Wait, backup: Seat | None) -> State:
        """The worker is lost, or must go. What the policy says becomes of the session."""
        try:
            await self.seat.end_processes(wait)
            if self.closed:
                return "ended"
            if backup is not None and await self._answers(wait, backup):
                backup, self.seat = self.seat, backup
                return "rolled_back"
            if self.after_kill == "end":
                self.ended = "its code was killed"
                return "ended"
            await self.seat.spawn(wait)
            await self.seat.hand_tools(wait, self.calls)
            self.births += 1
            return "restarted"
        except Hangup:
            self.ended = "its supervisor is gone"
        except SandboxError as error:
            self.ended = error.message
        finally:
            if backup is not None:  # what was lost, or a backup that the code has found and killed
                await backup.close(wait)
        return "ended"

    async def _answers(self, wait: Wait, backup: Seat) -> bool:
        """Is it alive? The code may have found and killed it, and one that is dying does not look it yet."""
        try:
            outcome = await backup.ask(wait, self.calls, {"op": "set", "values": {}}, wall=self.limits.wall)
        except (Hangup, SandboxError):
            return False
        return outcome.answer is not None

    async def _value(
        self, wait: Wait, question: Message, blob: bytes = b"", descriptors: Sequence[int] = ()
    ) -> Outcome:
        """A small question, which may run code of the session all the same: a `__repr__`."""
        async with self._turn(wait):
            outcome = await self._ask(wait, question, blob, self.limits.wall, descriptors)
            if outcome.answer is not None and "error" not in outcome.answer:
                return outcome
            state: State = "kept" if outcome.answer is not None else await self._after_kill(wait, None)
            result = to_result(outcome, self.limits, hit=None, state=state)
            raise SandboxError(f"the session did not answer: {result.exception}", f"its state is {state}")

    async def variables(self, wait: Wait) -> dict[str, str]:
        return await self._listed(wait, {"op": "variables"})

    async def describe(self, wait: Wait, longest: int, most: int | None) -> dict[str, str]:
        return await self._listed(wait, self._described(longest, most))

    def _described(self, longest: int, most: int | None) -> Message:
        if isinstance(longest, bool) or not isinstance(longest, int) or not 0 < longest <= self.limits.return_bytes:
            raise UsageError(f"longest is {longest!r}", f"it is a number from 1 to {self.limits.return_bytes}")
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise UsageError(f"most is {most!r}", "it is a number, or None for all of them")
        return {"op": "describe", "longest": longest, "most": most}

    async def define(self, wait: Wait, code: str) -> None:
        if not isinstance(code, str):
            raise UsageError(f"code is text, not {type(code).__name__}")
        await self._value(wait, {"op": "define"}, code.encode("utf-8", "surrogatepass"))

    async def _listed(self, wait: Wait, question: Message) -> dict[str, str]:
        answer = (await self._value(wait, question)).answer or {}
        found = answer.get("variables")
        return texts(found) if isinstance(found, dict) else {}

    async def get(self, wait: Wait, name: str) -> Any:
        outcome = await self._value(wait, {"op": "get", "name": check_name(name)})
        if (outcome.answer or {}).get("missing"):
            raise UsageError(f"no variable named {name!r}", "session.variables() lists them")
        return read_value(outcome, self.limits)

    async def set(self, wait: Wait, name: str, value: Any) -> None:
        check_name(name)
        if isinstance(value, str) and len(value) >= _LONG_TEXT:
            with filed(value) as descriptor:
                await self._value(wait, {"op": "set", "values": {}, "text": name}, b"", (descriptor,))
            return
        try:
            data = to_json(value, where=name)
            json.dumps(data)  # a number may have more digits than Python writes
        except (NotJSONableError, ValueError) as error:
            raise UsageError(f"the value is no data: {error}") from None
        await self._value(wait, {"op": "set", "values": {name: data}})

    async def read_file(self, wait: Wait, path: str) -> bytes:
        most = min(self.limits.disk_bytes or _LARGEST_FILE, _LARGEST_FILE)
        async with self._turn(wait):
            return (await self.seat.files(wait, "read", path=str(path), limit=most))[1]

    async def write_file(self, wait: Wait, path: str, data: bytes | str) -> None:
        blob = contents(path, data)
        if len(blob) > min(self.limits.disk_bytes or _LARGEST_FILE, _LARGEST_FILE):
            raise UsageError(f"cannot write {str(path)!r}: {len(blob)} bytes are more than its folder holds")
        async with self._turn(wait):
            await self.seat.files(wait, "write", blob, path=str(path))

    async def list_files(self, wait: Wait) -> dict[str, int]:
        async with self._turn(wait):
            answer, _ = await self.seat.files(wait, "list", most=_MOST_FILES)
            return {clean(path): int(size) for path, size in answer["files"].items()}

    async def fork(self, wait: Wait, tools: Tools | None = None) -> Core:
        """`tools` are functions that answer in the fork, under the names that its code knows."""
        chosen = {**self.calls.tools, **(tools or {})}
        if chosen.keys() != self.calls.tools.keys():
            strange = min(chosen.keys() - self.calls.tools.keys())
            raise UsageError(f"the session knows no tool {strange!r}", "a fork has the tools of its original")
        check_tools(chosen)
        return await whole(wait, self._fork(wait, chosen), undo=lambda core: core.close(wait))

    async def _fork(self, wait: Wait, tools: Tools) -> Core:
        async with self._turn(wait):
            try:
                seat = await branch(wait, self.seat)
            except OSError as error:
                raise SandboxError(f"no fork: {error}") from None
            twin = await Core.take(wait, seat, tools, self.after_kill, self._living)
            twin.births = self.births
            return twin

    async def restore(self, wait: Wait, snapshot: Core) -> None:
        """Works on a session that has ended, too."""
        if snapshot._living is not self._living:
            raise UsageError("the snapshot is of another sandbox")
        self._check()
        if not self._busy.acquire(blocking=False):
            raise BusyError("the session is busy")
        try:
            await whole(wait, self._restore(wait, snapshot))
        finally:
            self._busy.release()

    async def _restore(self, wait: Wait, snapshot: Core) -> None:
        async with snapshot._turn(wait):
            seat = await branch(wait, snapshot.seat)
        lost, self.seat, self.ended = self.seat, seat, ""
        await lost.close(wait)

    async def interrupt(self, wait: Wait) -> bool:
        question = self.seat.open_question if self._running and self._pid == os.getpid() else None
        if question is None:
            return False
        try:
            await question.interrupt(wait)
        except Hangup:
            return False
        return True

    async def close(self, wait: Wait) -> None:
        """Safe to call twice, and again after it was interrupted in the middle."""
        await whole(wait, self._close(wait))

    async def _close(self, wait: Wait) -> None:
        if self._pid != os.getpid():  # a forked process has no part in it
            return
        self.closed = True
        if self._running:  # in another thread or task, which is told by the end of its code
            with suppress(Hangup):
                await self.seat.supervision.tell(wait, "end")
        if not await _patiently(wait, lambda: self._closing.acquire(blocking=False)):
            return  # somebody else is at it
        try:
            if self in self._living:
                await _patiently(wait, self._is_free)
                self.calls.close()
                await self.seat.close(wait)
                self._living.discard(self)
        finally:
            self._closing.release()

    def _is_free(self) -> bool:
        """Is nobody in? From then on nobody comes in any more."""
        self._vacated = self._vacated or self._busy.acquire(blocking=False)
        return self._vacated


async def _patiently(wait: Wait, ready: Callable[[], bool]) -> bool:
    """Wait without holding up a loop, but not for ever: what we wait for may itself be waiting for this very thread."""
    until = time.monotonic() + _PATIENCE
    while not (found := ready()) and time.monotonic() < until:
        await wait.sleep(0.002)
    return found

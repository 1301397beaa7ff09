"""The host's end of a fork-server: starting it fresh, asking it for sessions, and ending it."""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import subprocess
import tempfile
import weakref
from contextlib import suppress
from dataclasses import asdict, fields
from typing import Any

from envweave.errors import SandboxError
from envweave.sandbox import boot
from envweave.sandbox.guest.frames import Hangup, Message
from envweave.sandbox.guest.plan import Bounds, Plan
from envweave.sandbox.limits import Limits
from envweave.sandbox.line import Line, pair
from envweave.sandbox.supervision import Supervision
from envweave.sandbox.waiting import BLOCKING, Wait, drive

_BOOT = 120.0
_START = 60.0
_END = 30.0


class UnfitError(SandboxError):
    """The kernel would not do what was asked of it: this machine has no such walls."""


class ForkServer:
    """A process of its own, never forked from this one: nothing of our memory and none of our threads are in it."""

    def __init__(self, python: str, plan: Plan) -> None:
        ours, theirs = socket.socketpair()
        self._numbers = itertools.count()
        self._lives: dict[Supervision, tuple[int, int]] = {}
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (what it says last, if it does not start)
        try:
            self._process = self._start(python, theirs)
        except OSError as error:
            ours.close()
            self._said.close()
            raise SandboxError(f"{python!r} cannot be started: {error}") from None
        finally:
            theirs.close()
        self._line = Line(ours, limit=1 << 20)
        self._finalizer = weakref.finalize(self, _end, self._process, ours, os.getpid())
        try:
            self.hello = drive(self._begin(plan))
        except BaseException:
            self.close()
            raise

    def _start(self, python: str, theirs: socket.socket) -> subprocess.Popen[bytes]:
        number = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)  # a host may have none of the first three
        try:
            return self._run(python, number)
        finally:
            os.close(number)

    def _run(self, python: str, number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  (the interpreter that the caller has named)
            [python, *boot.ARGUMENTS, str(number)],
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            env=boot.ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )

    async def _begin(self, plan: Plan) -> Message:
        try:
            self._line.sock.setblocking(True)
            self._line.sock.sendall(boot.modules())
            self._line.sock.setblocking(False)
            await self._line.send(BLOCKING, {"op": "forkserver", "plan": asdict(plan)})
            hello, _ = await self._line.first(BLOCKING, _BOOT)
        except (Hangup, OSError):
            self._process.kill()
            self._process.wait()
            self._said.seek(0)
            said = self._said.read(1 << 16).decode(errors="replace").strip().splitlines()
            raise SandboxError(f"the fork-server did not start: {said[-1] if said else 'it said nothing'}") from None
        if hello["op"] == "unfit":
            raise UnfitError(str(hello["reason"]))
        if hello["op"] == "failed":
            raise SandboxError(f"a module cannot be preloaded: {hello['reason']}")
        return hello

    async def open(self, wait: Wait, limits: Limits) -> tuple[Supervision, int | None]:
        """A new supervisor, and its process."""
        ours, theirs = pair()
        try:
            life, life_theirs = os.pipe()
        except OSError:
            ours.close()
            theirs.close()
            raise
        number = next(self._numbers)
        supervision = Supervision(Line(ours, limit=1 << 30))
        self._lives[supervision] = life, number
        try:
            with theirs:
                message = {"op": "spawn", "session": number, "bounds": bounds_of(limits)}
                await self._line.send(wait, message, b"", (theirs.fileno(), life_theirs))
        except Hangup:
            self._bury(supervision)
            raise SandboxError("the fork-server is gone") from None
        finally:
            os.close(life_theirs)
        try:
            hello, pid = await supervision.line.first(wait, _START)
            if hello["op"] != "hello":
                raise UnfitError(f"no session: {hello.get('reason')}")
        except (Hangup, OSError):  # the latter if the fork-server is closed meanwhile
            await self.end(wait, supervision)
            raise SandboxError("no session: its supervisor ended at once") from None
        except BaseException:
            await self.end(wait, supervision)
            raise
        return supervision, pid

    async def end(self, wait: Wait, supervision: Supervision) -> None:
        """Returns when no process of the session is left."""
        if supervision not in self._lives:
            return
        life, number = self._lives[supervision]
        try:
            await self._line.send(wait, {"op": "end", "session": number})
            await wait.readable([life], _END)
        except Hangup:  # it is gone, and all sessions with it
            pass
        self._bury(supervision)

    def _bury(self, supervision: Supervision) -> None:
        found = self._lives.pop(supervision, None)
        if found is not None:
            os.close(found[0])
            supervision.line.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End it and all its sessions. Those who wait for one are woken; descriptors are theirs to close."""
        self._finalizer()
        self._said.close()
        for supervision in list(self._lives):
            with suppress(OSError):
                supervision.line.sock.shutdown(socket.SHUT_RDWR)


def _end(process: subprocess.Popen[bytes], sock: socket.socket, owner: int) -> None:
    """Hang up, and wait: it ends its sessions and itself. In a forked copy of the host there is nothing to end."""
    if os.getpid() != owner:
        return
    sock.close()
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def bounds_of(limits: Limits) -> dict[str, Any]:
    """The limits that hold inside."""
    return {each.name: getattr(limits, each.name) for each in fields(Bounds)}

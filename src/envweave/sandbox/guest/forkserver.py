"""A warm interpreter that makes sessions by forking itself. It holds no secret and runs no code of any agent.

It answers nothing: a new supervisor speaks for itself on the socket it was given, and the end of a session shows as
the end of its `life` pipe, which nobody holds but the fork-server.
"""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from envweave.sandbox.guest import landlock, linux, processes, walls
from envweave.sandbox.guest.bell import Bell, disconnect
from envweave.sandbox.guest.frames import Channel, Hangup, Message
from envweave.sandbox.guest.plan import HOME, Bounds, Plan
from envweave.sandbox.guest.supervisor import Supervisor
from envweave.sandbox.guest.warmth import PreloadError, warm_up


@dataclass
class Birth:
    """A supervisor, and what is to be done when it is gone."""

    pid: int
    life: int
    folder: str | None


class ForkServer:
    """Makes sessions until the host hangs up."""

    def __init__(self, sock: socket.socket, plan: Plan) -> None:
        self.channel = Channel(sock, limit=1 << 20)
        self.plan = plan
        self.program = b""
        self.births: dict[int, Birth] = {}

    def serve(self) -> None:
        """Go behind the walls, say what they are, and make sessions."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # one for each session
        try:
            walls.enter(self.plan)
            self.program = walls.filter_program(self.plan)
            warm_up(self.plan.preload)
        except PreloadError as error:  # no lack of walls, and so no reason to do with less of them
            self._fail("failed", str(error))
        except BaseException as error:
            self._fail("unfit", f"{type(error).__name__}: {error}")
        if sys.platform == "linux":
            linux.become_subreaper()
        self.channel.send({"op": "hello", "landlock": landlock.abi(), "seccomp": bool(self.program)})
        bell, poll = Bell(), select.poll()
        for each in (self.channel.sock, bell):
            poll.register(each, select.POLLIN)
        try:
            while True:
                ready = dict(poll.poll())
                if bell.fileno() in ready:
                    bell.silence()
                    self._reap()
                if self.channel.sock.fileno() in ready:
                    self.channel.fill()
                    while (frame := self.channel.ready()) is not None:
                        self._serve(frame[0])
        except Hangup:
            self._end_all()

    def _fail(self, op: str, reason: str) -> NoReturn:
        self.channel.send({"op": op, "reason": reason})
        os._exit(1)

    def _serve(self, message: Message) -> None:
        if message["op"] == "spawn":
            self._spawn(message)
        elif message["op"] == "end" and message["session"] in self.births:
            birth = self.births[message["session"]]
            os.kill(birth.pid, signal.SIGKILL)

    def _spawn(self, message: Message) -> None:
        supervisor, life = self.channel.take(2)
        folder = None
        try:
            if not self.plan.namespaces:
                folder = tempfile.mkdtemp(prefix=f"envweave-{self.plan.owner}-")
            pid = linux.clone(walls.ALL) if self.plan.namespaces else os.fork()
            if not pid:
                self._become_supervisor(supervisor, Bounds.read(message["bounds"]), folder)
            self.births[message["session"]] = Birth(pid, life, folder)
        except OSError as error:
            os.close(life)
            with socket.socket(fileno=os.dup(supervisor)) as sock, suppress(OSError):
                Channel(sock, limit=0).send({"op": "failed", "reason": str(error)})
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(supervisor)

    def _become_supervisor(self, descriptor: int, bounds: Bounds, folder: str | None) -> None:
        """In the new process. It returns never."""
        sock = socket.socket(fileno=descriptor)
        try:
            disconnect()
            os.closerange(3, descriptor)
            os.closerange(descriptor + 1, 1 << 20)
            if self.plan.namespaces:
                walls.furnish(bounds)
            if sys.platform == "linux":
                linux.die_with_parent()
                linux.become_subreaper()
                linux.set_dumpable(False)  # its memory and descriptors are closed to the worker
            Supervisor(sock, self.plan, bounds, folder or HOME, self.program).serve()
        except BaseException as error:
            try:
                Channel(sock, limit=0).send({"op": "failed", "reason": f"{type(error).__name__}: {error}"})
            except OSError:
                pass
        finally:
            os._exit(0)

    def _reap(self) -> None:
        """Sessions that have ended, and processes that a supervisor could not end because it was killed itself."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if not pid:
                return
            ended = [session for session, birth in self.births.items() if birth.pid == pid]
            for session in ended:
                self._bury(self.births.pop(session))

    def _bury(self, birth: Birth) -> None:
        if not self.plan.namespaces:
            processes.end(self._strays)
        if birth.folder is not None:
            shutil.rmtree(birth.folder, ignore_errors=True)
        os.close(birth.life)

    def _strays(self) -> list[int]:
        """Descendants that belong to no living session: they have become our own children."""
        known = {birth.pid for birth in self.births.values()}
        found = [pid for pid in processes.children(os.getpid()) if pid not in known]
        for pid in found:
            os.waitpid(pid, os.WNOHANG)
        return found

    def _end_all(self) -> None:
        for birth in self.births.values():
            os.kill(birth.pid, signal.SIGKILL)
        for birth in self.births.values():
            os.waitpid(birth.pid, 0)
        for birth in self.births.values():
            self._bury(Birth(0, birth.life, birth.folder))
        os._exit(0)

"""The process that holds a session and never runs code of the agent.

It is the first process of the session's namespace, so that its end is the end of all others, and the parent of the
workers: one for the session, and one for each fork of it. What it does, the host has asked for.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field

from envweave.sandbox.guest import files, frames, landlock, linux, processes, walls
from envweave.sandbox.guest.bell import Bell
from envweave.sandbox.guest.birth import become_worker
from envweave.sandbox.guest.frames import Channel, Hangup, Message, close_all
from envweave.sandbox.guest.plan import HOME, Bounds, Plan

_LARGEST = 1 << 30


@dataclass
class Member:
    """The session itself, or a fork of it: each has a line of its own to the host."""

    channel: Channel
    mounts: int | None = None
    """A descriptor of its mount namespace, where it has one of its own; while it is open, its files are kept."""
    inode: int | None = None
    pids: set[int] = field(default_factory=set)
    """Its worker, and workers before that."""
    expecting: bool = False
    """It is being forked, and the new process is nobody's yet."""


class Supervisor:
    """Serves a session and its forks until the host has hung up on all of them."""

    def __init__(self, sock: socket.socket, plan: Plan, bounds: Bounds, home: str, program: bytes) -> None:
        self.plan, self.bounds, self.home, self.program = plan, bounds, home, program
        self.work = f"{home}/work"
        self.members: dict[int, Member] = {}
        """By the descriptor of their line."""
        self._own = processes.everyone_else if plan.namespaces else processes.descendants
        if sys.platform != "linux":  # without /proc only the workers are known
            self._own = lambda: [pid for member in self.members.values() for pid in member.pids]
        self._poll = select.poll()
        self._join(Member(Channel(sock, limit=_LARGEST), *self._mounts("self")))

    def serve(self) -> None:
        """Answer until there is nobody to answer to, then end all that is left."""
        for name in ("work", "tmp", "shm"):
            os.makedirs(f"{self.home}/{name}", exist_ok=True)
        bell = Bell()
        self._poll.register(bell, select.POLLIN)
        for member in self.members.values():
            member.channel.send({"op": "hello", "landlock": landlock.abi(), "seccomp": bool(self.program)})
        while self.members:
            for descriptor, _ in self._poll.poll():
                if descriptor == bell.fileno():
                    bell.silence()
                    self._reap()
                elif descriptor in self.members:
                    self._listen(descriptor)
        processes.end(self._own)

    def _listen(self, descriptor: int) -> None:
        member = self.members[descriptor]
        try:
            member.channel.fill()
            while (frame := member.channel.ready()) is not None:
                self._serve(member, *frame)
        except (Hangup, ConnectionError):
            self._part(descriptor)

    def _serve(self, member: Member, message: Message, blob: bytes) -> None:
        """A question with an answer. What fails fails with a reason, and the supervisor goes on."""
        try:
            answer, data = getattr(self, f"do_{message['op']}")(member, message, blob)
        except files.Refused as error:
            answer, data = {"refused": str(error)}, b""
        except OSError as error:
            answer, data = {"refused": _reason(error)}, b""
        except Exception as error:  # what a fork says of itself may be anything
            answer, data = {"refused": repr(error)}, b""
        member.channel.send({"op": "answer", "number": message["number"], **answer}, data)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for member in self.members.values():
                if pid in member.pids:
                    member.pids.discard(pid)
                    with suppress(ConnectionError):  # the host has hung up, which is noticed in its turn
                        member.channel.send({"op": "death", "exit_code": os.waitstatus_to_exitcode(status)})

    def _join(self, member: Member) -> None:
        descriptor = member.channel.sock.fileno()
        self.members[descriptor] = member
        self._poll.register(descriptor, select.POLLIN)

    def _part(self, descriptor: int) -> None:
        """The host has hung up on a member: its processes end, and its files go."""
        self._poll.unregister(descriptor)
        member = self.members[descriptor]
        if len(self.members) > 1:
            self._end(member)
        del self.members[descriptor]
        member.channel.sock.close()
        if member.mounts is not None:
            os.close(member.mounts)

    def _mounts(self, whose: str) -> tuple[int | None, int | None]:
        if not self.plan.namespaces:
            return None, None
        mounts = os.open(f"/proc/{whose}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        return mounts, os.fstat(mounts).st_ino

    # What the host may ask for.

    def do_spawn(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        """A worker for a member that has none."""
        descriptors = member.channel.take(3 + message["groups"])
        pid = os.fork()
        if not pid:
            become_worker(self.plan, self.bounds, self.home, self.program, member.mounts, descriptors)
        close_all(descriptors)
        member.pids.add(pid)
        return {}, b""

    def do_expect(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        """The member is about to be forked: from here on a process that is nobody's may be the new one."""
        member.expecting = True
        return {}, b""

    def do_adopt(self, parent: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        """The member has forked: give the new one a line, and files of its own that are the same as its parent's."""
        parent.expecting = False
        (line,) = parent.channel.take(1)
        channel = Channel(socket.socket(fileno=line), limit=_LARGEST)
        pid = int(message["pid"])
        if len(self.members) > self.bounds.forks:
            raise files.Refused(f"it has {len(self.members) - 1} living forks already")
        if processes.parent_of(pid) != os.getpid() or self._owner(pid) is not None:
            raise files.Refused(f"{pid} is not its process")
        mounts, inode = self._mounts(str(pid))
        if mounts is None or inode in {member.inode for member in self.members.values()}:
            raise files.Refused("it has no mounts of its own")
        try:
            self._go_to(mounts)
            self._copy_home()
        except BaseException:
            os.close(mounts)
            raise
        self._join(Member(channel, mounts, inode, {pid}))
        frames.send_as(channel.sock, {"op": "hello"}, pid)
        return {}, b""

    def _copy_home(self) -> None:
        """Where we are, a new file system covers the old one, and has the same in it."""
        source = os.open(HOME, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            walls.mount_home(self.bounds)
            target = os.open(HOME, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                files.copy_tree(source, target)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def do_sweep(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        """Kill what belongs to nobody: the remains of a fork that has failed."""
        member.expecting = False
        if not self._expecting():
            processes.end(lambda: [pid for pid in self._own() if self._owner(pid) is None])
        return {}, b""

    def do_room(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        """How many files could still be made."""
        self._go_to(member.mounts)
        found = os.statvfs(self.home)
        return {"files": found.f_favail}, b""

    def do_interrupt(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        """Like Ctrl-C: the worker and the programs it has started."""
        for pid in member.pids:
            try:
                os.killpg(pid, signal.SIGINT)
            except (ProcessLookupError, PermissionError):
                processes.send([pid], signal.SIGINT)
        return {}, b""

    def do_end(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        """Kill all processes of a member; its files stay."""
        self._end(member)
        self._reap()
        return {}, b""

    def do_halt(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        """Between two runs nothing moves: whatever the code has left behind is stopped, and its worker too."""
        if self._alone(member):
            processes.all_others(signal.SIGSTOP)
        processes.halt(lambda: self._processes(member))
        self._reap()
        return {}, b""

    def do_wake(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        if self._alone(member):
            processes.all_others(signal.SIGCONT)
        else:
            processes.send(self._processes(member), signal.SIGCONT)
        return {}, b""

    def do_measure(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        """What a member uses now, of that which no wall of the kernel bounds."""
        pids = self._processes(member)
        answer: Message = {"cpu": processes.cpu_seconds(pids), "processes": sum(processes.threads(pid) for pid in pids)}
        if message.get("memory") is not None:
            answer["memory_bytes"] = processes.memory_bytes(pids, message["memory"])
        if message.get("disk"):
            answer["disk_bytes"] = files.used_bytes(self.home)
        return answer, b""

    def do_read(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        self._go_to(member.mounts)
        return {}, files.read(self.work, message["path"], message["limit"])

    def do_write(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        self._go_to(member.mounts)
        files.write(self.work, message["path"], blob)
        return {}, b""

    def do_list(self, member: Member, message: Message, blob: bytes) -> tuple[Message, bytes]:
        self._go_to(member.mounts)
        return {"files": files.listing(self.work, message["most"])}, b""

    # How it is done.

    def _go_to(self, mounts: int | None) -> None:
        if mounts is not None:
            linux.setns(mounts, linux.NEWNS)

    def _processes(self, member: Member) -> list[int]:
        """Those of one member, and those that are nobody's, unless one of these may just have been born."""
        found = self._own()
        if len(self.members) == 1 and not member.expecting:
            return found
        owners = (member,) if self._expecting() else (member, None)
        return [pid for pid in found if self._owner(pid) in owners]

    def _end(self, member: Member) -> None:
        if self._alone(member):
            processes.all_others(signal.SIGKILL)
        processes.end(lambda: self._processes(member))

    def _alone(self, member: Member) -> bool:
        """Is everybody but ourselves in our process namespace one of this member's?"""
        return os.getpid() == 1 and len(self.members) == 1 and not member.expecting

    def _expecting(self) -> bool:
        return any(member.expecting for member in self.members.values())

    def _owner(self, pid: int) -> Member | None:
        """By its mounts where they can be seen (a fork hides its own), else by its parent. An orphan is anybody's."""
        while pid > 1 and pid != os.getpid():
            inode = processes.namespace_of(pid)
            for member in self.members.values():
                if pid in member.pids or (inode is not None and inode == member.inode):
                    return member
            pid = processes.parent_of(pid)
        return None


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "a symbolic link is not followed"
    return os.strerror(error.errno) if error.errno else str(error)

"""Landlock: this process and all that it starts may reach named paths only, without root and inside containers too.

Covered from ABI 1: opening, executing, making, linking and removing files and directories outside the named paths, and
any change of mounts.
Later kernels add, and older ones do not cover:

    ABI 2   moving and linking files from one directory to another (before it, always refused)
    ABI 3   truncating files by path
    ABI 4   TCP: binding and connecting
    ABI 5   ioctl on device files
    ABI 6   signals to processes, and connecting to abstract Unix sockets, outside this domain
    ABI 9   connecting and sending to Unix sockets that have a path
    ABI 10  UDP: binding, connecting and sending

Not covered at any ABI: files that are open already; stat, access, chdir and readlink of any path; chmod, chown, utime
and extended attributes; locks; other kinds of sockets (raw, packet, netlink); ptrace of a process within the same
domain; System V IPC and POSIX message queues; how much of anything is used. `seccomp` and namespaces stop the sockets.
Paths below /proc are files like any other: name /proc itself only where a pid namespace makes it this sandbox's own.
"""

import errno
import os
import stat
import struct
from collections.abc import Iterable

from envweave.sandbox.guest import linux

_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEVICE, _RESOLVE_UNIX = 1 << 13, 1 << 14, 1 << 15, 1 << 16
_READABLE = _EXECUTE | _READ_FILE | _READ_DIRECTORY
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE | _RESOLVE_UNIX

# The first ABI that knows it, and the right: of files, of the network (TCP, then UDP), and the scopes.
_FILES = ((1, (1 << 13) - 1), (2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEVICE), (9, _RESOLVE_UNIX))
_NETWORK = ((4, 0b0011), (10, 0b1100))
_SCOPES = ((6, 0b11),)


def abi() -> int:
    """The version of Landlock of the running kernel; 0 where it is absent, switched off or out of reach."""
    try:
        return linux.syscall("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def restrict(*, readable: Iterable[str], writable: Iterable[str], listed: Iterable[str] = ()) -> None:
    """Leave this thread, and all that it starts, the given paths and what is below them, for good.

    `readable` may be read, listed and executed, `listed` may be listed; in `writable` everything is allowed. Paths that
    do not exist are passed over. The caller has set no_new_privs and has one thread. Raises `OSError` where Landlock is
    absent: nothing is restricted then.
    """
    version = abi()
    files = _known(_FILES, version)
    # A kernel older than a field takes the structure without it; a longer one is fine as long as the rest is zero.
    rights = struct.pack("QQQ", files, _known(_NETWORK, version), _known(_SCOPES, version))
    ruleset = linux.syscall("landlock_create_ruleset", rights, len(rights), 0)
    try:
        for path in listed:
            _allow(ruleset, path, files & _READ_DIRECTORY)
        for path in readable:
            _allow(ruleset, path, files & _READABLE)
        for path in writable:
            _allow(ruleset, path, files)
        linux.syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def without(readable: Iterable[str], hidden: Iterable[str]) -> tuple[list[str], list[str]]:
    """Paths that may be listed and paths that may be read, so that no file of the hidden folders may be."""
    listed: list[str] = []
    kept = list(readable)
    for path in map(os.path.realpath, hidden):
        leading = [each for each in kept if _leads_to(each, path)]
        kept = [each for each in kept if each not in leading]
        while leading:  # a folder may be reached by links, too
            each = os.path.realpath(leading.pop())
            if each != path and each not in listed and os.path.isdir(each):
                listed.append(each)
                for name in os.listdir(each):
                    within = os.path.join(each, name)
                    (leading if _leads_to(within, path) else kept).append(within)
    return listed, kept


def _leads_to(folder: str, path: str) -> bool:
    folder = os.path.realpath(folder)
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _known(rights: Iterable[tuple[int, int]], version: int) -> int:
    return sum(right for since, right in rights if since <= version)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        linux.syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)


def set_apart() -> None:
    """A domain of its own within the one there is: what it was copied from can no more be signalled or looked into.

    Nothing happens before ABI 6, nor in the sixteenth domain within a domain, which is the last.
    """
    if abi() < _SCOPES[0][0]:
        return
    rights = struct.pack("QQQ", 0, 0, _SCOPES[0][1])
    ruleset = linux.syscall("landlock_create_ruleset", rights, len(rights), 0)
    try:
        linux.syscall("landlock_restrict_self", ruleset, 0)
    except OSError as error:
        if error.errno != errno.E2BIG:
            raise
    finally:
        os.close(ruleset)

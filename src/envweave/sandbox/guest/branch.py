"""Two workers from one: what stands in the way, and what the new one has to set right before it goes on.

A copy of a process has its memory, but threads are gone, and descriptors are shared with the original: an offset, a
pipe, a socket would be moved by both. Files are opened anew, and what cannot be had twice is refused with its name.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator

from envweave.sandbox.guest import landlock, linux, processes
from envweave.sandbox.guest.frames import BadFrame, close_all
from envweave.sandbox.guest.mail import Mail

_CLONE_PARENT = 0x8000
_MAKING = os.O_CREAT | os.O_EXCL | os.O_TRUNC
_HARMLESS = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}


def obstacle(own: set[int]) -> str | None:
    """Why this process cannot be in two places, or None. Descriptors that are our own are no obstacle."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"{threads - 1} running threads besides the main one"
    if children := processes.children(os.getpid()):
        return f"{len(children)} child processes"
    for number, target in _descriptors():
        if number in own or target in _HARMLESS or _is_output(number):
            continue
        mode = os.fstat(number).st_mode
        if stat.S_ISSOCK(mode):
            return f"an open socket (descriptor {number})"
        if stat.S_ISFIFO(mode):
            return f"an open pipe (descriptor {number})"
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or target.startswith("/proc/"):
            return f"an open {target} (descriptor {number})"
        if not _can_open_anew(number, target):
            return f"the open file {target}, which cannot be opened a second time (descriptor {number})"
    return _shared_memory()


def _can_open_anew(number: int, target: str) -> bool:
    """Under its name, if it has one, there must be this very file, and we must be let in again."""
    found = os.fstat(number)
    if not found.st_nlink or target.startswith("/memfd:"):
        return True
    try:
        new = os.open(target, _flags(number) & ~_MAKING)
    except OSError:
        return False
    try:
        return os.path.samestat(found, os.fstat(new))
    finally:
        os.close(new)


def split() -> int:
    """Fork; the new process is a child of the supervisor, so that code that waits for its children never meets it."""
    return linux.clone(_CLONE_PARENT)


def settle_in(mail: Mail, descriptors: list[int], unshare_flags: int) -> None:
    """In the copy: take the new channel and outputs, and files of its own as soon as they are there."""
    control, out, err = descriptors
    channel = mail.channel
    same = {
        number: 1 if _is_output(number) == 1 else 2 for number, _ in _descriptors() if number > 2 and _is_output(number)
    }
    os.dup2(out, 1)
    os.dup2(err, 2)
    for number, stream in same.items():
        os.dup2(stream, number)
    os.dup2(control, channel.sock.fileno(), inheritable=False)
    close_all(descriptors)
    os.setsid()
    where = os.getcwd()
    if unshare_flags:
        linux.unshare(unshare_flags)
        landlock.set_apart()
    linux.set_dumpable(True)  # until the supervisor has seen who we are
    channel.send({"op": "hello", "pid": os.getpid()})
    message, _ = mail.order()
    if message.get("op") != "adopted":
        raise BadFrame("a branch that nobody adopts")
    os.chdir(where)
    files = {
        number: target
        for number, target in _descriptors()
        if number > 2 and number != channel.sock.fileno() and target not in _HARMLESS and number not in same
    }
    twins = _with_one_place(files)
    for number, target in files.items():
        if number in twins:
            os.dup2(twins[number], number, inheritable=os.get_inheritable(number))
        else:
            _open_anew(number, target)
    linux.set_dumpable(False)  # closed to the one we were copied from: memory, descriptors, files
    channel.send({"op": "ready"})


def _with_one_place(files: dict[int, str]) -> dict[int, int]:
    """Descriptors that move together, with an earlier one of each: they were made by `dup`, and will be again."""
    twins: dict[int, int] = {}
    for number, target in files.items():
        for earlier, same in files.items():
            if earlier == number:
                break
            if same == target and earlier not in twins and _move_together(earlier, number):
                twins[number] = earlier
    return twins


def _move_together(one: int, another: int) -> bool:
    """Nobody else looks at the place meanwhile: the original waits until we are done."""
    place = os.lseek(one, 0, os.SEEK_CUR)
    if os.lseek(another, 0, os.SEEK_CUR) != place or stat.S_ISDIR(os.fstat(one).st_mode):
        return False
    os.lseek(one, place + 1, os.SEEK_SET)
    try:
        return os.lseek(another, 0, os.SEEK_CUR) == place + 1
    finally:
        os.lseek(one, place, os.SEEK_SET)


def _open_anew(number: int, target: str) -> None:
    """The same file by its name, or its contents in a new one if it has no name, at the same place."""
    flags = _flags(number)
    found = os.fstat(number)
    if stat.S_ISDIR(found.st_mode):
        new = os.open(target, flags)
    elif found.st_nlink and not target.startswith("/memfd:"):
        new = os.open(target, flags & ~_MAKING)
    else:
        new = _unnamed(target)
        _copy(number, new, found.st_size)
    if not stat.S_ISDIR(found.st_mode):
        os.lseek(new, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
    os.dup2(new, number, inheritable=os.get_inheritable(number))
    os.close(new)


def _unnamed(target: str) -> int:
    if target.startswith("/memfd:"):
        return os.memfd_create(target.removeprefix("/memfd:").removesuffix(" (deleted)"))
    return os.open(os.path.dirname(target), os.O_TMPFILE | os.O_RDWR, 0o600)


def _copy(source: int, target: int, size: int) -> None:
    done = 0
    while done < size and (data := os.pread(source, min(1 << 20, size - done), done)):
        done += os.pwrite(target, data, done)


def _flags(number: int) -> int:
    return fcntl.fcntl(number, fcntl.F_GETFL)


def _descriptors() -> Iterator[tuple[int, str]]:
    for name in os.listdir("/proc/self/fd"):
        try:
            yield int(name), os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the one that listed them
            continue


def _is_output(number: int) -> int:
    """1 or 2 if the descriptor is another name of that output, else 0."""
    for stream in (1, 2):
        try:
            if os.path.sameopenfile(number, stream):
                return stream
        except OSError:
            continue
    return 0


def _shared_memory() -> str | None:
    with open("/proc/self/maps") as lines:
        for line in lines:
            parts = line.split(maxsplit=5)
            if parts[1][1] == "w" and parts[1][3] == "s":
                return f"memory shared with other processes ({parts[5].strip() if len(parts) > 5 else 'anonymous'})"
    return None

"""The walls around a session, put up in this order, each inherited and none to be taken down from inside.

`enter` once, in the fork-server: a view of the host that holds nothing but the interpreter and the system's
libraries, and namespaces in which it is root of nothing. `furnish` in each supervisor: files and a view of processes
of its own. `confine` in each worker, just before it runs code.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress

from envweave.sandbox.guest import landlock, linux, seccomp, world
from envweave.sandbox.guest.plan import AGENT, HOME, Bounds, Plan

ALL = linux.NEWUSER | linux.NEWNS | linux.NEWPID | linux.NEWNET | linux.NEWIPC | linux.NEWUTS
BRANCH = linux.NEWNS | linux.NEWNET | linux.NEWIPC
"""What a forked session gets anew; its process and user namespaces it shares with the one it comes from."""

_CAP_SYS_ADMIN = 21


def enter(plan: Plan) -> None:
    """Go behind the walls, for good. With namespaces, what returns is the first process of a new world."""
    root = os.geteuid() == 0
    if not plan.namespaces:
        if root and plan.tier in ("landlock", "process"):
            _become(plan.uid, plan.gid)
        return
    if root:
        linux.unshare(linux.NEWNS)
        world.move_in(plan.readable, plan.hidden)
        _become(plan.uid, plan.gid)
    ids = os.geteuid(), os.getegid()
    linux.unshare(ALL)
    map_user(0, ids)
    _continue_in_child()
    if root:
        world.mount_proc("/proc")
    else:
        world.move_in(plan.readable, plan.hidden)
    linux.set_hostname("sandbox")


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    linux.set_dumpable(True)  # else our own /proc/self belongs to root
    if not os.access(sys.executable, os.R_OK | os.X_OK):
        raise PermissionError(f"user {uid}, whom sessions run as, cannot read {sys.executable}")


def map_user(inside: int, ids: tuple[int, int]) -> None:
    """In a new user namespace: the one user there is, by its number inside and outside."""
    with suppress(OSError):  # denied already
        _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{inside} {ids[0]} 1")
    _write("/proc/self/gid_map", f"{inside} {ids[1]} 1")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _continue_in_child() -> None:
    """A process namespace begins with its first child; the parent stays outside only to end with it."""
    child = os.fork()
    if child:
        os.closerange(0, 1 << 12)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    linux.die_with_parent()


def furnish(bounds: Bounds) -> None:
    """In a new supervisor with namespaces of its own: a folder of bounded size, and nobody's processes but its own."""
    map_user(AGENT, (0, 0))
    mount_home(bounds)
    try:
        world.mount_proc("/proc", "subset=pid")
    except OSError:  # before Linux 5.8
        world.mount_proc("/proc")
    linux.set_hostname("sandbox")


def mount_home(bounds: Bounds) -> None:
    options = ["mode=700"]
    options += [f"size={bounds.disk_bytes}"] if bounds.disk_bytes is not None else []
    options += [f"nr_inodes={bounds.files}"] if bounds.files is not None else []
    linux.mount("tmpfs", HOME, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, ",".join(options))
    world.uncover()


def confine(plan: Plan, bounds: Bounds, home: str, program: bytes) -> None:
    """In a worker: from here on it can only do what code of an agent may do."""
    if plan.tier == "unsafe":
        return
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, bounds.memory_bytes)
    _limit(resource.RLIMIT_NOFILE, bounds.open_files)
    _limit(resource.RLIMIT_FSIZE, bounds.file_bytes)
    if plan.namespaces and bounds.processes is not None:  # elsewhere it would count the processes of all sessions
        _limit(resource.RLIMIT_NPROC, bounds.processes + bounds.forks + 1)
    if plan.tier == "process" or sys.platform != "linux":
        return
    linux.no_new_privileges()
    linux.drop_capabilities(keep=(_CAP_SYS_ADMIN,) if plan.namespaces and plan.forks else ())
    if landlock.abi():
        landlock.restrict(**_paths(plan, home))
    if program:
        seccomp.install(program)


def _limit(kind: int, value: int | None) -> None:
    if value is None:
        return
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _paths(plan: Plan, home: str) -> dict[str, list[str]]:
    devices = ["/dev/null", "/dev/zero", "/dev/full"]
    if plan.namespaces:  # the mounts say what is read-only; `/home` holds, so that a fork's new folder is writable too
        return {"readable": ["/"], "writable": ["/home", *devices]}
    listed, readable = landlock.without(plan.readable, plan.hidden)
    readable += [
        "/dev/urandom",
        "/dev/random",
        "/etc/ld.so.cache",
        "/etc/localtime",
        "/etc/alternatives",
    ]
    own = f"/proc/{os.getpid()}"
    if plan.tier == "container":
        return {"readable": ["/"], "writable": [home, "/tmp", "/dev/shm", own, *devices]}  # noqa: S108
    return {"readable": [*readable, own], "writable": [home, *devices], "listed": listed}


def filter_program(plan: Plan) -> bytes:
    """The system calls of a worker, or nothing where they cannot be filtered."""
    if plan.tier in ("process", "unsafe") or not seccomp.supported():
        return b""
    branch = BRANCH if plan.namespaces and plan.forks else None
    apart = plan.tier in ("namespace", "container")
    return seccomp.program(branch_flags=branch, unix_sockets=apart, system_v=apart)

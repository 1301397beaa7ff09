"""The Linux calls that build a jail, called through ctypes: namespaces, mounts, capabilities, process attributes.

Each function raises `OSError` with the kernel's errno and the name of the call. Nothing is looked up in the C library
before it is called, so the module imports on any system.
"""

import ctypes
import errno
import functools
import os
import signal
import struct
from collections.abc import Callable, Iterable

from envweave.sandbox.guest import syscalls

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000
NEWUSER, NEWPID, NEWNET = 0x1000_0000, 0x2000_0000, 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000

_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 1, 2, 4

_CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x0020_0000, 0x0100_0000

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 23, 24, 28
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_PR_GET_TID_ADDRESS = 40
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

_SA_NOCLDSTOP = 1

_CAP_SETPCAP = 8
_CAP_VERSION_3 = 0x2008_0522
# NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE with their locks, and the lock alone of KEEP_CAPS.
_SECUREBITS = 0xEF


@functools.cache
def _libc() -> ctypes.PyDLL:
    # PyDLL keeps the GIL, without which no other thread can run between the halves of a fork; the calls are all short.
    library = ctypes.PyDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _call(what: str, function: str, *arguments: object) -> int:
    # ctypes would pass a bare int as a 32-bit one and leave the upper half of the register to chance.
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(getattr(_libc(), function)(*passed))
    if result == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def syscall(name: str, *arguments: object) -> int:
    """Call the kernel by the call's name; ints, bytes, ctypes pointers and None (NULL) are passed as they are."""
    try:
        number = syscalls.number(name)
    except LookupError:
        raise OSError(errno.ENOSYS, f"{name}: {os.strerror(errno.ENOSYS)}") from None
    return _call(name, "syscall", number, *arguments)


def prctl(what: str, option: int, *arguments: int) -> int:
    """Call prctl with the missing arguments as zeros; `what` names the option in the error."""
    return _call(f"prctl {what}", "prctl", option, *arguments, *(0,) * (4 - len(arguments)))


# -- namespaces --------------------------------------------------------------------------------------------------------


def unshare(flags: int) -> None:
    _call(f"unshare {flags:#x}", "unshare", flags)


def setns(fd: int, flags: int) -> None:
    _call(f"setns {flags:#x}", "setns", fd, flags)


def clone(flags: int) -> int:
    """Fork into the new namespaces of `flags`; returns as `os.fork` does: 0 in the child, its pid in the parent.

    The caller has one thread only: the kernel refuses NEWUSER otherwise, and this does not go through the C library's
    fork, so its `pthread_atfork` handlers do not run and a lock of malloc that another thread holds is never let go.
    """
    arguments: list[int] = [flags | signal.SIGCHLD, 0, 0, 0, 0]  # no new stack: the child goes on where the parent is
    # The C library keeps the thread's id in its own memory and takes the owner of a mutex from there. Its fork has the
    # kernel write the child's id to that place. The kernel knows the place too, but musl has given it another one (a
    # lock), and not every kernel tells: it is used only if it holds our id now. Else the child keeps its parent's id,
    # which matters to error-checking mutexes alone (gettid, raise and pthread_kill of oneself ask the kernel) and is
    # put right by its own next fork. What is not restored is the list of robust mutexes, which CPython does not use.
    place = _thread_id_place()
    if place:
        arguments[0] |= _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
        # x86_64: flags, stack, parent_tid, child_tid, tls; aarch64 has the last two the other way round.
        arguments[3 if syscalls.machine() == "x86_64" else 4] = place
    before, after_child, after_parent = _fork_hooks()
    # No Python handler may run while the interpreter is half forked.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    before()
    pid = -1
    try:
        pid = syscall("clone", *arguments)
    finally:
        (after_child if pid == 0 else after_parent)()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _thread_id_place() -> int:
    place = ctypes.c_void_p()
    try:
        _call("prctl tid address", "prctl", _PR_GET_TID_ADDRESS, ctypes.byref(place), 0, 0, 0)
    except OSError:  # a kernel without CHECKPOINT_RESTORE
        return 0
    address = place.value or 0
    return address if address and ctypes.c_int.from_address(address).value == syscall("gettid") else 0


def _fork_hooks() -> tuple[Callable[[], None], Callable[[], None], Callable[[], None]]:
    api = ctypes.pythonapi
    hooks = api.PyOS_BeforeFork, api.PyOS_AfterFork_Child, api.PyOS_AfterFork_Parent
    for hook in hooks:
        hook.restype = None
    return hooks


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _call("sethostname", "sethostname", encoded, len(encoded))


# -- mounts ------------------------------------------------------------------------------------------------------------


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _call(f"mount {source} on {target}", "mount", *texts[:3], flags, texts[3])


def bind(source: str, target: str) -> None:
    """Show the tree at `source` at `target` as well, with all that is mounted below it."""
    mount(source, target, None, MS_BIND | MS_REC)


def make_private() -> None:
    """Let no mount made from here on be seen outside this mount namespace, nor one made outside be seen here."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def read_only(path: str, *, recursive: bool = True, devices: bool = False) -> None:
    """Take writing, set-user-ID and, without `devices`, device files from the mount at `path` and those below it."""
    taken = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | (0 if devices else _MOUNT_ATTR_NODEV)
    attributes = struct.pack("QQQQ", taken, 0, 0, 0)
    where = _AT_RECURSIVE if recursive else 0
    syscall("mount_setattr", _AT_FDCWD, os.fsencode(path), where, attributes, len(attributes))


def pivot_into(root: str) -> None:
    """Make the mount point `root` the root of this mount namespace, and let go of the old root."""
    os.chdir(root)
    syscall("pivot_root", b".", b".")  # the old root comes to lie over the new one, and is the one taken off
    _call("umount2 old root", "umount2", b".", _MNT_DETACH)
    os.chdir("/")


# -- rights ------------------------------------------------------------------------------------------------------------


@functools.cache
def capabilities() -> int:
    """How many this kernel has. Asked once, best before the first fork."""
    for capability in range(64):
        try:
            prctl("CAPBSET_READ", _PR_CAPBSET_READ, capability)
        except OSError:
            return capability
    return 64


def drop_capabilities(keep: Iterable[int] = ()) -> None:
    """Give up every capability but `keep`, for good; those kept do not survive the next exec.

    A process without CAP_SETPCAP can touch neither its bounding set nor its securebits: there `no_new_privileges` is
    what stops a later exec from giving anything back.
    """
    mask = sum(1 << capability for capability in set(keep))
    header = struct.pack("Ii", _CAP_VERSION_3, 0)
    held = ctypes.create_string_buffer(24)
    syscall("capget", header, held)
    if struct.unpack("6I", held.raw)[0] >> _CAP_SETPCAP & 1:
        for capability in range(capabilities()):
            if not mask >> capability & 1:
                prctl("CAPBSET_DROP", _PR_CAPBSET_DROP, capability)
        prctl("SECUREBITS", _PR_SET_SECUREBITS, _SECUREBITS)
    prctl("CAP_AMBIENT", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    low, high = mask & 0xFFFF_FFFF, mask >> 32
    syscall("capset", header, struct.pack("6I", low, low, 0, high, high, 0))


def no_new_privileges() -> None:
    prctl("NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def set_dumpable(dumpable: bool) -> None:
    """Whether processes of the same user may look into this one, and whether /proc/self belongs to that user."""
    prctl("DUMPABLE", _PR_SET_DUMPABLE, int(dumpable))


def hear_of_ends_only() -> None:
    """From now on SIGCHLD, whose handler is set already, does not come when a child is stopped or goes on."""
    action = ctypes.create_string_buffer(64)  # handler, flags, restorer, mask
    syscall("rt_sigaction", signal.SIGCHLD, None, action, 8)
    flags = ctypes.c_ulong.from_buffer(action, ctypes.sizeof(ctypes.c_void_p))
    flags.value |= _SA_NOCLDSTOP
    syscall("rt_sigaction", signal.SIGCHLD, action, None, 8)


def become_subreaper() -> None:
    """Become the parent of every orphan below this process."""
    prctl("CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal: int = signal.SIGKILL) -> None:
    """Get `signal` when the parent thread ends; the caller looks at `os.getppid` afterwards, it may be gone already.

    A change of user or group IDs, and of capabilities by exec, clears it: call this after those.
    """
    prctl("PDEATHSIG", _PR_SET_PDEATHSIG, signal)

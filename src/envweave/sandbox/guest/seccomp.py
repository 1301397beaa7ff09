"""The system-call filter of the sandbox: an allowlist as a classic BPF program.

Covered: a call that is not named below fails with EPERM and never reaches the kernel's code for it; one that programs
try in order to find out whether the kernel is new enough, and every number unknown to our table (x32 among them),
fails with ENOSYS, so that they fall back. Calls of another instruction set (`int 0x80`) kill the process. Namespaces
cannot be made, no socket but AF_UNIX, nothing can be pushed into a terminal, and no other process can be limited,
rescheduled, made the target of a file's signals, or signalled all at once.

Not covered: what pointers point at (paths, addresses, `clone3`'s flags: that call is refused as a whole), a signal to
one process that the kernel lets us see (pid namespace or Landlock), how much of anything is used (limits, cgroups).
"""

import ctypes
import errno
import struct
from collections.abc import Callable

from envweave.sandbox.guest import linux, syscalls

_ALLOWED = """
read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range dup dup2 dup3 open
openat openat2 creat pipe pipe2 sendfile splice tee copy_file_range readahead fadvise64 fallocate truncate ftruncate
fsync fdatasync sync_file_range flock memfd_create cachestat
stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64 getcwd chdir fchdir
rename renameat renameat2 mkdir mkdirat rmdir link linkat unlink unlinkat symlink symlinkat readlink readlinkat chmod
fchmod fchmodat fchmodat2 chown fchown lchown fchownat umask utime utimes futimesat utimensat file_getattr file_setattr
setxattr lsetxattr fsetxattr setxattrat getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr
listxattrat removexattr lremovexattr fremovexattr removexattrat inotify_init inotify_init1 inotify_add_watch
inotify_rm_watch

mmap munmap mremap mprotect madvise msync mincore brk mlock mlock2 mlockall munlock munlockall mseal map_shadow_stack
pkey_mprotect pkey_alloc pkey_free membarrier

select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime
sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg shutdown getsockname getpeername setsockopt getsockopt

fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid getpgrp getsid setpgid setsid
tkill tgkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo
rt_sigsuspend sigaltstack pause restart_syscall set_tid_address set_robust_list rseq arch_prctl futex futex_waitv
futex_wake futex_wait futex_requeue
getrlimit setrlimit getrusage getpriority sched_yield sched_getaffinity sched_getattr sched_getparam
sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval
getuid geteuid getresuid setuid setreuid setresuid setfsuid getgid getegid getresgid setgid setregid setresgid setfsgid
getgroups setgroups capget

time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep times alarm getitimer setitimer timer_create
timer_settime timer_gettime timer_getoverrun timer_delete uname sysinfo getcpu getrandom
"""

_PRCTL = (
    *(1, 2, 3),  # SET_PDEATHSIG, GET_PDEATHSIG, GET_DUMPABLE
    *(15, 16, 21, 23, 27),  # SET_NAME, GET_NAME, GET_SECCOMP, CAPBSET_READ, GET_SECUREBITS
    *(29, 30, 36, 37, 38, 39),  # SET_ and GET_TIMERSLACK, CHILD_SUBREAPER, NO_NEW_PRIVS
    *(40, 42, 52, 0x5356_4D41),  # GET_TID_ADDRESS, GET_THP_DISABLE, GET_SPECULATION_CTRL, SET_VMA (names of memory)
)
_PR_SET_DUMPABLE = 4

# What makes a socket of AF_UNIX reach beyond its pair.
_ALLOWED_WITH_UNIX_SOCKETS = "bind connect listen accept accept4"

# What is shared by all who are in one namespace of its kind.
_ALLOWED_WITH_SYSTEM_V = "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl"

# What takes rights away from the caller and gives none.
_ALLOWED_WITH_BRANCHES = "landlock_create_ruleset landlock_restrict_self"

# What programs try first and do without if the kernel is too old for it.
_ABSENT = """
clone3 pidfd_open pidfd_send_signal pidfd_getfd io_uring_setup io_uring_enter io_uring_register
landlock_create_ruleset landlock_add_rule landlock_restrict_self statmount listmount
"""

_ALLOW, _KILL_PROCESS, _REFUSE = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_EPERM, _ENOSYS = _REFUSE | errno.EPERM, _REFUSE | errno.ENOSYS
_EAFNOSUPPORT, _ESOCKTNOSUPPORT = _REFUSE | errno.EAFNOSUPPORT, _REFUSE | errno.ESOCKTNOSUPPORT

_LOAD, _AND, _JUMP, _IF_EQUAL, _IF_GREATER_OR_EQUAL, _IF_BITS, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}

_SET_MODE_FILTER, _GET_ACTION_AVAIL, _TSYNC = 1, 2, 1

_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPES = 1, 1, 5, 0xF
_NAMESPACES = (
    linux.NEWNS | linux.NEWCGROUP | linux.NEWUTS | linux.NEWIPC | linux.NEWUSER | linux.NEWPID | linux.NEWNET
)  # without NEWTIME: clone(2) has the signal of the child's end in those bits, unshare and clone3 alone take it
_CLONE_PARENT = 0x8000
_S_IFCHR = 0x2000  # the bit that of all kinds of files only devices (and symbolic links) have


def supported() -> bool:
    """Whether this machine has a table here and a kernel that takes filters."""
    if not syscalls.machine():
        return False
    try:
        linux.syscall("seccomp", _GET_ACTION_AVAIL, 0, struct.pack("I", _KILL_PROCESS))
    except OSError:
        return False
    return True


def install(program: bytes) -> None:
    """Put every thread of this process and all that it starts under `program`, for good.

    The caller has set no_new_privs. The filters of several calls add up; the strictest verdict holds.
    """
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    if thread := linux.syscall("seccomp", _SET_MODE_FILTER, _TSYNC, header):
        raise OSError(errno.EBUSY, f"seccomp: thread {thread} has a filter of its own")


def program(
    *,
    branch_flags: int | None = None,
    unix_sockets: bool = True,
    system_v: bool = True,
    machine: str | None = None,
) -> bytes:
    """The filter as `install` takes it, for this machine unless another is named.

    `branch_flags` lets through what it takes to make a branch of a process: `unshare` with exactly these flags,
    `clone` of a child for one's own parent, a Landlock domain, and being closed to the looks of others. `system_v` is
    IPC that needs a namespace to be kept in. Without `unix_sockets`, AF_UNIX is left with `socketpair` of streams and
    packets: a datagram socket, even one of a pair, can be sent from to any path, which Landlock does not mediate before
    its ABI 9.
    """
    machine = machine or syscalls.machine()
    rules = _rules(branch_flags, unix_sockets, system_v)
    assembler = _Assembler()
    otherwise = assembler.place(_KILL_PROCESS)
    assembler.search(_segments(syscalls.table(machine), rules))
    search = assembler.load(_NR)
    assembler.branch(_IF_EQUAL, _ARCHITECTURES[machine], search, otherwise)
    assembler.load(_ARCH)
    return assembler.code()


# -- the rules ---------------------------------------------------------------------------------------------------------


def _rules(branch_flags: int | None, unix_sockets: bool, system_v: bool) -> dict[str, "_Target"]:
    """What becomes of each call; those not in it are refused with EPERM."""
    rules = dict(_CHECKED)
    rules.update(dict.fromkeys(_ALLOWED.split(), _ALLOW))
    rules.update(dict.fromkeys(_ABSENT.split(), _ENOSYS))
    if unix_sockets:
        rules.update(dict.fromkeys(_ALLOWED_WITH_UNIX_SOCKETS.split(), _ALLOW))
        rules["socket"] = rules["socketpair"] = _only(0, _AF_UNIX, refused=_EAFNOSUPPORT)
    else:
        kinds = _only(1, _SOCK_STREAM, _SOCK_SEQPACKET, mask=_SOCK_TYPES, refused=_ESOCKTNOSUPPORT)
        rules["socket"] = _EAFNOSUPPORT
        rules["socketpair"] = _only(0, _AF_UNIX, then=kinds, refused=_EAFNOSUPPORT)
    if system_v:
        rules.update(dict.fromkeys(_ALLOWED_WITH_SYSTEM_V.split(), _ALLOW))
    if branch_flags is not None:
        rules.update(dict.fromkeys(_ALLOWED_WITH_BRANCHES.split(), _ALLOW))
        rules["unshare"] = _only(0, branch_flags)
        rules["clone"] = _without(0, _NAMESPACES)
        rules["prctl"] = _only(0, _PR_SET_DUMPABLE, *_PRCTL)
    return rules


def _segments(numbers: dict[str, int], rules: dict[str, "_Target"]) -> list[tuple[int, "_Target"]]:
    """All numbers from 0 on, as pairs of the first number of a run and what becomes of the run."""
    targets = {number: rules.get(name, _EPERM) for name, number in numbers.items()}
    segments: list[tuple[int, _Target]] = []
    for number in range(max(targets) + 2):  # the last run, of ENOSYS, has no end
        target = targets.get(number, _ENOSYS)
        if not segments or segments[-1][1] != target:
            segments.append((number, target))
    return segments


class _Assembler:
    """Writes a program from its last instruction to its first, so that each jump knows how far its target is.

    The address of an instruction is the number of instructions from it to the end. BPF jumps only forward, which here
    is to what has been written already.
    """

    def __init__(self) -> None:
        self._instructions: list[tuple[int, int, int, int]] = []
        self._placed: dict[_Target, int] = {}

    def code(self) -> bytes:
        return b"".join(struct.pack("HBBI", *instruction) for instruction in reversed(self._instructions))

    def place(self, target: "_Target") -> int:
        """The address of a verdict or of a check: one within reach if there is one, else a new one."""
        address = self._placed.get(target, 0)
        if not address or self._distance(address) > 200:
            address = self._write(_RETURN, target) if isinstance(target, int) else target(self)
            self._placed[target] = address
        return address

    def load(self, offset: int, *, mask: int | None = None) -> int:
        """Take a word of the call's description, and go on with the instruction written last."""
        if mask is not None:
            self._write(_AND, mask)
        return self._write(_LOAD, offset)

    def branch(self, condition: int, value: int, yes: int, no: int) -> int:
        yes, no = self._near(yes), self._near(no)
        return self._write(condition, value, self._distance(yes), self._distance(no))

    def search(self, segments: list[tuple[int, "_Target"]]) -> int:
        """A balanced tree that finds the segment of the loaded number."""
        if len(segments) == 1:
            return self.place(segments[0][1])
        middle = len(segments) // 2
        above, below = self.search(segments[middle:]), self.search(segments[:middle])
        return self.branch(_IF_GREATER_OR_EQUAL, segments[middle][0], above, below)

    def _write(self, operation: int, value: int, yes: int = 0, no: int = 0) -> int:
        self._instructions.append((operation, yes, no, value))
        return len(self._instructions)

    def _distance(self, address: int) -> int:
        return len(self._instructions) - address

    def _near(self, address: int) -> int:
        """An address that the 8 bits of a branch can reach, even if one more step in between is written before it."""
        if self._distance(address) < 255:
            return address
        operation, _, _, value = self._instructions[address - 1]
        if operation == _RETURN:
            return self._write(_RETURN, value)
        return self._write(_JUMP, self._distance(address))


_Target = int | Callable[[_Assembler], int]  # a verdict, or what writes a check and gives its address


def _only(
    argument: int, *values: int, mask: int | None = None, then: _Target = _ALLOW, refused: int = _EPERM
) -> _Target:
    """Refuse the call unless the low word of its argument is one of `values`."""

    def write(assembler: _Assembler) -> int:
        yes, no = assembler.place(then), assembler.place(refused)
        for value in reversed(values):
            no = assembler.branch(_IF_EQUAL, value, yes, no)
        return assembler.load(_ARGUMENTS + 8 * argument, mask=mask)

    return write


def _never(argument: int, *values: int) -> _Target:
    """Refuse the call if the low word of its argument is one of `values`."""

    def write(assembler: _Assembler) -> int:
        yes, no = assembler.place(_EPERM), assembler.place(_ALLOW)
        for value in reversed(values):
            no = assembler.branch(_IF_EQUAL, value, yes, no)
        return assembler.load(_ARGUMENTS + 8 * argument)

    return write


def _without(argument: int, bits: int) -> _Target:
    """Refuse the call if its argument has any of `bits`."""

    def write(assembler: _Assembler) -> int:
        assembler.branch(_IF_BITS, bits, assembler.place(_EPERM), assembler.place(_ALLOW))
        return assembler.load(_ARGUMENTS + 8 * argument)

    return write


_OWN_PID = _only(0, 0)

_CHECKED: dict[str, _Target] = {
    # A child given to our own parent (CLONE_PARENT) would look to it like one that it made.
    "clone": _without(0, _NAMESPACES | _CLONE_PARENT),
    "prlimit64": _OWN_PID,
    "sched_setaffinity": _OWN_PID,
    "sched_setattr": _OWN_PID,
    "sched_setparam": _OWN_PID,
    "sched_setscheduler": _OWN_PID,
    "setpriority": _only(0, 0, then=_only(1, 0)),  # PRIO_PROCESS, itself
    "kill": _never(0, 0xFFFF_FFFF),
    "fcntl": _never(1, 8, 10, 15),  # F_SETOWN, F_SETSIG, F_SETOWN_EX
    # TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD, TIOCVHANGUP; FIOSETOWN and SIOCSPGRP are F_SETOWN by another name.
    "ioctl": _never(1, 0x5412, 0x541C, 0x541D, 0x5423, 0x5437, 0x8901, 0x8902),
    "mknod": _without(1, _S_IFCHR),
    "mknodat": _without(2, _S_IFCHR),
    "personality": _only(0, 0xFFFF_FFFF),  # the question which it is
    "prctl": _only(0, *_PRCTL),
}

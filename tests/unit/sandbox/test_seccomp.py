import asyncio
import errno
import fcntl
import mmap
import multiprocessing
import os
import resource
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envweave.sandbox.guest import linux, seccomp, syscalls
from support.child import in_child

ALLOW, KILL = "allow", "kill"
MACHINES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}

on_this_kernel = pytest.mark.skipif(not seccomp.supported(), reason="this kernel or machine has no seccomp filters")


# -- the program, run by an interpreter of our own ---------------------------------------------------------------------


def interpret(program: bytes, nr: int, arguments: tuple[int, ...], arch: int) -> tuple[str, int]:
    """The verdict of a BPF program on a call, and how many instructions it took."""
    padded = [value & 0xFFFF_FFFF_FFFF_FFFF for value in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", nr & 0xFFFF_FFFF, arch, 0, *padded)
    code = list(struct.iter_unpack("HBBI", program))
    at = word = steps = 0
    while True:
        operation, yes, no, value = code[at]
        at, steps = at + 1, steps + 1
        match operation:
            case 0x20:
                (word,) = struct.unpack_from("<I", data, value)
            case 0x54:
                word &= value
            case 0x05:
                at += value
            case 0x15:
                at += yes if word == value else no
            case 0x35:
                at += yes if word >= value else no
            case 0x45:
                at += yes if word & value else no
            case 0x06:
                return verdict(value), steps
            case _:
                raise AssertionError(f"unknown instruction {operation:#x}")


def verdict(value: int) -> str:
    if value == 0x7FFF_0000:
        return ALLOW
    if value == 0x8000_0000:
        return KILL
    assert value >> 16 == 5, hex(value)
    return errno.errorcode[value & 0xFFFF]


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def judge(machine: str, call: str, *arguments: int, **options: Any) -> str:
    program = seccomp.program(machine=machine, **options)
    return interpret(program, syscalls.table(machine)[call], arguments, MACHINES[machine])[0]


def test_every_name_of_the_policy_is_a_system_call_of_some_machine() -> None:
    named = {*seccomp._rules(0, True, True), *seccomp._rules(None, False, False)}
    assert named <= {*syscalls.table("x86_64"), *syscalls.table("aarch64")}


def test_no_name_of_the_policy_is_in_two_lists() -> None:
    lists = (
        seccomp._ALLOWED,
        seccomp._ALLOWED_WITH_UNIX_SOCKETS,
        seccomp._ALLOWED_WITH_SYSTEM_V,
        seccomp._ABSENT,
    )
    names = [name for text in lists for name in text.split()] + list(seccomp._CHECKED)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("call", ["read", "write", "openat", "mmap", "futex", "execve", "wait4", "getrandom", "statx"])
def test_everyday_calls_are_allowed(machine: str, call: str) -> None:
    assert judge(machine, call) == ALLOW


REFUSED = """
ptrace process_vm_readv process_vm_writev kcmp keyctl add_key request_key bpf perf_event_open userfaultfd
mount umount2 fsopen fsmount fsconfig fspick move_mount open_tree mount_setattr pivot_root setns chroot unshare
swapon swapoff reboot init_module finit_module delete_module kexec_load name_to_handle_at open_by_handle_at
fanotify_init quotactl sethostname setdomainname clock_settime settimeofday clock_adjtime vhangup acct lookup_dcookie
syslog seccomp capset process_madvise process_mrelease move_pages migrate_pages memfd_secret vmsplice get_robust_list
"""


@pytest.mark.parametrize("call", REFUSED.split())
def test_calls_that_reach_out_are_refused(machine: str, call: str) -> None:
    assert judge(machine, call) == "EPERM"


@pytest.mark.parametrize("call", ["iopl", "ioperm", "modify_ldt", "uselib", "create_module"])
def test_calls_of_old_x86_are_refused(call: str) -> None:
    assert judge("x86_64", call) == "EPERM"


@pytest.mark.parametrize("call", seccomp._ABSENT.split())
def test_calls_that_programs_probe_for_seem_absent(machine: str, call: str) -> None:
    assert judge(machine, call) == "ENOSYS"


def test_a_number_of_no_call_seems_absent(machine: str) -> None:
    program, numbers = seccomp.program(machine=machine), syscalls.table(machine)
    unknown = {*range(600), 0x4000_0000, 0x4000_0000 + numbers["read"], 0x7FFF_FFFF, -1} - set(numbers.values())
    assert {interpret(program, nr, (), MACHINES[machine])[0] for nr in unknown} == {"ENOSYS"}


def test_a_call_of_another_architecture_kills(machine: str) -> None:
    program = seccomp.program(machine=machine)
    others = {*MACHINES.values(), 0x4000_0003, 0x4000_0028, 0} - {MACHINES[machine]}
    assert {interpret(program, 1, (), arch)[0] for arch in others} == {KILL}


def test_the_search_agrees_with_the_policy_on_every_number(machine: str) -> None:
    program, rules = seccomp.program(machine=machine), seccomp._rules(None, True, True)
    for name, nr in syscalls.table(machine).items():
        rule = rules.get(name, seccomp._EPERM)
        if isinstance(rule, int):
            assert interpret(program, nr, (), MACHINES[machine])[0] == verdict(rule), name


def test_the_program_is_short_and_its_paths_are_shorter(machine: str) -> None:
    program = seccomp.program(machine=machine, branch_flags=1, unix_sockets=False)
    assert len(program) // 8 <= 200
    steps = [interpret(program, nr, (), MACHINES[machine])[1] for nr in syscalls.table(machine).values()]
    assert max(steps) <= 40
    assert sum(steps) / len(steps) <= 12


@pytest.mark.parametrize("targets", [300, 5000])
def test_a_search_too_wide_for_short_jumps_still_finds_its_way(targets: int) -> None:
    verdicts = [0x0005_0000 | number % 7 + 1 for number in range(targets)]
    assembler = seccomp._Assembler()
    assembler.search([(number * 3, value) for number, value in enumerate(verdicts)])
    assembler.load(0)
    code = assembler.code()
    for number in range(0, targets * 3, 101):
        assert interpret(code, number, (), 0)[0] == verdict(verdicts[number // 3])


CHILD = int(signal.SIGCHLD)
LOW = 0xDEAD_BEEF_0000_0000  # what a 32-bit argument may have in its upper half

ARGUMENTS: list[tuple[str, tuple[int, ...], str]] = [
    ("clone", (CHILD,), ALLOW),
    ("clone", (0x0100_0000 | 0x0020_0000 | CHILD,), ALLOW),  # what fork passes
    ("clone", (0x003D_0F00,), ALLOW),  # what pthread_create passes
    ("clone", (0x80 | CHILD,), ALLOW),  # NEWTIME's bit is of the signal here
    ("clone", (0x8000 | CHILD,), "EPERM"),  # CLONE_PARENT
    *(("clone", (1 << bit | CHILD,), "EPERM") for bit in (17, 25, 26, 27, 28, 29, 30)),
    ("clone", (LOW | linux.NEWUSER,), "EPERM"),
    ("unshare", (linux.NEWNS,), "EPERM"),
    ("unshare", (0,), "EPERM"),
    ("socket", (socket.AF_UNIX, 1, 0), ALLOW),
    ("socket", (LOW | 1, 1, 0), ALLOW),
    *(("socket", (family, 1, 0), "EAFNOSUPPORT") for family in (0, 2, 10, 16, 17, 31, 38, 40)),
    ("socketpair", (1, 1, 0), ALLOW),
    ("socketpair", (1, 2, 0), ALLOW),
    ("socketpair", (2, 1, 0), "EAFNOSUPPORT"),
    ("ioctl", (0, 0x5401), ALLOW),
    ("ioctl", (0, 0x5413), ALLOW),
    *(("ioctl", (0, LOW | request), "EPERM") for request in (0x5412, 0x541C, 0x541D, 0x5423, 0x5437, 0x8901, 0x8902)),
    *(("prctl", (option, 0), ALLOW) for option in (1, 2, 3, 15, 16, 21, 23, 36, 37, 38, 39, 0x5356_4D41)),
    *(("prctl", (option, 0), "EPERM") for option in (4, 8, 22, 24, 28, 35, 47, 53, 59, 0x5961_6D61)),
    ("personality", (0xFFFF_FFFF,), ALLOW),
    ("personality", (0,), "EPERM"),
    ("personality", (0x0040_0000,), "EPERM"),  # ADDR_NO_RANDOMIZE
    ("prlimit64", (0, 7), ALLOW),
    ("prlimit64", (LOW, 7), ALLOW),
    ("prlimit64", (1, 7), "EPERM"),
    ("sched_setaffinity", (0,), ALLOW),
    ("sched_setaffinity", (1,), "EPERM"),
    ("sched_setscheduler", (1,), "EPERM"),
    ("sched_getaffinity", (1,), ALLOW),
    ("setpriority", (0, 0), ALLOW),
    ("setpriority", (0, 1), "EPERM"),
    ("setpriority", (2, 0), "EPERM"),  # all processes of the user
    ("fcntl", (0, 1), ALLOW),
    ("fcntl", (0, 1033), ALLOW),  # F_ADD_SEALS
    *(("fcntl", (0, command), "EPERM") for command in (8, 10, 15)),
    ("kill", (1, 9), ALLOW),
    ("kill", (0, 2), ALLOW),
    ("kill", (-5, 2), ALLOW),
    ("kill", (-1, 9), "EPERM"),
    ("kill", (0xFFFF_FFFF, 9), "EPERM"),
    ("mknodat", (0, 0, 0o10600), ALLOW),
    ("mknodat", (0, 0, 0o100600), ALLOW),
    ("mknodat", (0, 0, 0o600), ALLOW),
    ("mknodat", (0, 0, 0o140600), ALLOW),
    ("mknodat", (0, 0, 0o20600), "EPERM"),
    ("mknodat", (0, 0, 0o60600), "EPERM"),
]


@pytest.mark.parametrize(("call", "arguments", "expected"), ARGUMENTS)
def test_a_call_is_judged_by_its_arguments(machine: str, call: str, arguments: tuple[int, ...], expected: str) -> None:
    assert judge(machine, call, *arguments) == expected


@pytest.mark.parametrize(("flags", "expected"), [(0x2000_0000, ALLOW), (0, "EPERM"), (0x3000_0000, "EPERM")])
def test_only_the_exact_flags_of_unshare_are_let_through(machine: str, flags: int, expected: str) -> None:
    assert judge(machine, "unshare", flags, branch_flags=0x2000_0000) == expected


@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("socket", (1, 1, 0), "EAFNOSUPPORT"),
        ("socketpair", (1, 1, 0), ALLOW),
        ("socketpair", (1, 1 | 0x80800, 0), ALLOW),
        ("socketpair", (1, 5, 0), ALLOW),
        ("socketpair", (1, 2, 0), "ESOCKTNOSUPPORT"),
        ("socketpair", (1, 3, 0), "ESOCKTNOSUPPORT"),  # SOCK_RAW is a datagram socket here
        ("socketpair", (2, 1, 0), "EAFNOSUPPORT"),
        ("connect", (), "EPERM"),
        ("bind", (), "EPERM"),
        ("sendmsg", (), ALLOW),
    ],
)
def test_without_unix_sockets_only_pairs_that_stay_pairs_are_left(
    machine: str, call: str, arguments: tuple[int, ...], expected: str
) -> None:
    assert judge(machine, call, *arguments, unix_sockets=False) == expected


# -- the program, run by the kernel ------------------------------------------------------------------------------------


def filtered(work: Callable[[], object], **options: Any) -> Any:
    """What `work` returns in a child under the filter, or the name of the errno that it fails with."""

    def install_and_work() -> object:
        linux.no_new_privileges()
        seccomp.install(seccomp.program(**options))
        return work()

    return in_child(install_and_work)


@on_this_kernel
@pytest.mark.parametrize(
    ("call", "expected"),
    [("mount", "EPERM"), ("ptrace", "EPERM"), ("bpf", "EPERM"), ("keyctl", "EPERM"), ("io_uring_setup", "ENOSYS")],
)
def test_the_kernel_never_sees_a_refused_call(call: str, expected: str) -> None:
    assert filtered(lambda: linux.syscall(call, 0, 0, 0, 0, 0)) == expected


@on_this_kernel
def test_a_process_cannot_clone_itself_into_namespaces() -> None:
    assert filtered(lambda: linux.clone(linux.NEWUSER)) == "EPERM"


@on_this_kernel
def test_unshare_reaches_the_kernel_with_the_exact_flags_only() -> None:
    odd = linux.NEWPID | 1 << 31  # what no kernel knows
    assert filtered(lambda: linux.unshare(odd), branch_flags=odd) == "EINVAL"
    assert filtered(lambda: linux.unshare(odd)) == "EPERM"


@on_this_kernel
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, getattr(socket, "AF_NETLINK", 16)])
def test_there_is_no_network_socket(family: int) -> None:
    assert filtered(lambda: socket.socket(family, socket.SOCK_DGRAM).close()) == "EAFNOSUPPORT"


@on_this_kernel
def test_a_pair_of_sockets_works_without_unix_sockets() -> None:
    def work() -> str:
        left, right = socket.socketpair()
        left.sendall(b"ping")
        return right.recv(4).decode()

    assert filtered(work, unix_sockets=False) == "ping"


@on_this_kernel
def test_a_datagram_pair_could_reach_a_path_and_is_refused_without_unix_sockets(tmp_path: Path) -> None:
    def work() -> str:
        left, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        left.sendto(b"out", str(tmp_path / "service"))
        return "sent"

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.bind(str(tmp_path / "service"))
        assert filtered(work, unix_sockets=True) == "sent"
        assert filtered(work, unix_sockets=False) == "ESOCKTNOSUPPORT"


@on_this_kernel
def test_a_process_cannot_make_itself_readable_again() -> None:
    assert filtered(lambda: linux.set_dumpable(True)) == "EPERM"


@on_this_kernel
def test_a_file_cannot_be_made_to_signal_another_process() -> None:
    def work() -> None:
        reader, _ = os.pipe()
        fcntl.fcntl(reader, fcntl.F_SETOWN, os.getppid())

    assert filtered(work) == "EPERM"


@on_this_kernel
def test_the_limits_of_another_process_stay() -> None:
    def work() -> object:
        resource.prlimit(0, resource.RLIMIT_NOFILE)
        return resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)

    assert filtered(work) == "EPERM"


@on_this_kernel
def test_a_thread_started_before_the_filter_is_under_it_too() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        installed = threading.Event()

        def late() -> None:
            installed.wait()
            try:
                socket.socket(socket.AF_INET).close()
            except OSError as error:
                os.write(writer, errno.errorcode[error.errno or 0].encode())
            os._exit(0)

        thread = threading.Thread(target=late)
        thread.start()
        linux.no_new_privileges()
        seccomp.install(seccomp.program())
        installed.set()
        thread.join()
        os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as answers:
        assert answers.read() == "EAFNOSUPPORT"
    os.waitpid(pid, 0)


@on_this_kernel
def test_threads_run_under_the_filter() -> None:
    def work() -> int:
        found: list[int] = []
        threads = [threading.Thread(target=found.append, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(found)

    assert filtered(work) == 28


@on_this_kernel
def test_programs_run_under_the_filter() -> None:
    def work() -> str:
        shell = "mkdir d && echo hi > d/f && cp -a d e && ls -la e >&2 && mkfifo p && cat e/f | tr a-z A-Z"
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(["sh", "-c", shell], cwd=folder, capture_output=True, text=True, check=True).stdout

    assert filtered(work) == "HI\n"


@on_this_kernel
def test_a_fresh_python_runs_under_the_filter() -> None:
    code = "import json, ssl, zoneinfo, uuid; print(sum(i * i for i in range(1000)))"

    def work() -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert filtered(work) == "332833500\n"


def square(number: int) -> int:
    return number * number


@on_this_kernel
@pytest.mark.parametrize("unix_sockets", [True, False])
def test_multiprocessing_runs_under_the_filter(unix_sockets: bool) -> None:
    def work() -> list[int]:
        context = multiprocessing.get_context("fork")
        with context.Pool(2) as pool:
            return pool.map(square, range(5))

    assert filtered(work, unix_sockets=unix_sockets) == [0, 1, 4, 9, 16]


@on_this_kernel
def test_asyncio_runs_programs_under_the_filter() -> None:
    async def ask() -> str:
        process = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        return out.decode()

    assert filtered(lambda: asyncio.run(ask()), unix_sockets=False) == "hello\n"


@on_this_kernel
def test_files_databases_and_shared_memory_work_under_the_filter(tmp_path: Path) -> None:
    def work() -> list[object]:
        with sqlite3.connect(tmp_path / "db") as database:
            database.execute("create table t (x)")
            database.execute("insert into t values (7)")
            kept = database.execute("select x from t").fetchone()[0]
        shared = mmap.mmap(-1, 4096)
        if os.fork() == 0:
            shared[:2] = b"ok"
            os._exit(0)
        os.wait()
        os.chown(tmp_path / "db", -1, -1)
        os.utime(tmp_path / "db", (1, 1))
        os.rename(tmp_path / "db", tmp_path / "other")
        return [kept, shared[:2].decode(), len(os.sched_getaffinity(0)) > 0]

    assert filtered(work) == [7, "ok", True]


@on_this_kernel
def test_a_second_filter_cannot_be_installed_from_inside() -> None:
    assert filtered(lambda: seccomp.install(seccomp.program())) == "EPERM"


def test_another_machine_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls, "machine", lambda: "")
    assert seccomp.supported() is False


def test_what_branches_take_is_refused_to_those_that_make_none(machine: str) -> None:
    for call, arguments in (("clone", (0x8000 | CHILD,)), ("prctl", (4, 0)), ("unshare", (0x6802_0000,))):
        assert judge(machine, call, *arguments) == "EPERM"
        assert judge(machine, call, *arguments, branch_flags=0x6802_0000) == ALLOW
    assert judge(machine, "landlock_restrict_self") == "ENOSYS"
    assert judge(machine, "landlock_restrict_self", branch_flags=0) == ALLOW


def test_system_v_ipc_needs_a_namespace_of_its_own(machine: str) -> None:
    assert judge(machine, "shmget") == ALLOW
    assert judge(machine, "shmget", system_v=False) == "EPERM"

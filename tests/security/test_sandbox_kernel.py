"""What the kernel offers: namespaces, mounts, capabilities, other processes, networks, and rarer things."""
# ruff: noqa: E501  (an attack is one line, however long)

import platform
import socket

import pytest

from envweave.sandbox.guest import syscalls

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000
NEWUSER, NEWPID, NEWNET, NEWTIME = 0x1000_0000, 0x2000_0000, 0x4000_0000, 0x80
BRANCH = NEWNS | NEWNET | NEWIPC

REFUSED = ("EPERM", "ENOSYS", "EACCES")

CALLS = {
    "ptrace": "0, 0, 0, 0",
    "process_vm_readv": "os.getppid(), None, 0, None, 0, 0",
    "process_vm_writev": "os.getppid(), None, 0, None, 0, 0",
    "process_madvise": "0, None, 0, 0, 0",
    "process_mrelease": "0, 0",
    "kcmp": "1, os.getpid(), 0, 0, 0",
    "pidfd_open": "1, 0",
    "pidfd_getfd": "100, 0, 0",
    "pidfd_send_signal": "100, 9, None, 0",
    "mount": "b'none', b'/home/agent/work', b'tmpfs', 0, None",
    "umount2": "b'/proc', 2",
    "pivot_root": "b'.', b'.'",
    "chroot": "b'/home/agent'",
    "fsopen": "b'tmpfs', 0",
    "fspick": "-100, b'/', 0",
    "fsmount": "100, 0, 0",
    "open_tree": "-100, b'/', 1",
    "move_mount": "-100, b'/tmp', -100, b'/', 0",
    "mount_setattr": "-100, b'/', 0, b'\\0' * 32, 32",
    "statmount": "None, None, 0, 0",
    "listmount": "None, None, 0, 0",
    "setns": "100, 0",
    "clone3": "b'\\0' * 88, 88",
    "keyctl": "0, -3, 1, 0, 0",
    "add_key": "b'user', b'x', b'x', 1, -3",
    "request_key": "b'user', b'x', None, -3",
    "bpf": "0, b'\\0' * 72, 72",
    "perf_event_open": "b'\\0' * 120, 0, -1, -1, 0",
    "userfaultfd": "0",
    "io_uring_setup": "1, b'\\0' * 120",
    "io_setup": "1, b'\\0' * 8",
    "seccomp": "1, 0, None",
    "capset": "b'\\0' * 8, b'\\0' * 24",
    "init_module": "b'x', 1, b''",
    "finit_module": "0, b'', 0",
    "delete_module": "b'x', 0",
    "kexec_load": "0, 0, None, 0",
    "reboot": "0xFEE1DEAD, 672274793, 0, None",
    "swapon": "b'/home/agent/work/x', 0",
    "swapoff": "b'/x'",
    "acct": "None",
    "syslog": "3, b' ' * 100, 100",
    "settimeofday": "b'\\0' * 16, None",
    "clock_settime": "0, b'\\0' * 16",
    "adjtimex": "b'\\0' * 208",
    "clock_adjtime": "0, b'\\0' * 208",
    "sethostname": "b'owned', 5",
    "setdomainname": "b'owned', 5",
    "quotactl": "0, None, 0, None",
    "name_to_handle_at": "-100, b'/', b'\\0' * 200, b'\\0' * 8, 0",
    "open_by_handle_at": "100, b'\\0' * 200, 0",
    "fanotify_init": "0, 0",
    "vmsplice": "1, None, 0, 0",
    "move_pages": "0, 0, None, None, None, 0",
    "migrate_pages": "0, 0, None, None",
    "mbind": "0, 0, 0, None, 0, 0",
    "set_mempolicy": "0, None, 0",
    "memfd_secret": "0",
    "remap_file_pages": "0, 0, 0, 0, 0",
    "personality": "0x0040000",
    "mq_open": "b'x', 66, 384, None",
    "vhangup": "",
    "ioprio_set": "1, 0, 0",
    "lookup_dcookie": "0, b' ' * 10, 10",
    "landlock_add_rule": "100, 1, None, 0",
    "modify_ldt": "0, None, 0",
    "iopl": "3",
    "ioperm": "0, 1, 1",
    "uselib": "b'/x'",
    "ustat": "0, None",
    "sysfs": "3",
    "lsm_set_self_attr": "100, None, 0, 0",
    "io_pgetevents": "0, 0, 0, None, None, None",
    "set_robust_list": None,
}


@pytest.mark.parametrize("name", [name for name, arguments in CALLS.items() if arguments is not None])
def test_a_call_that_code_has_no_business_with_is_refused(session, value, name):
    if name not in syscalls.table(syscalls.machine()):
        pytest.skip(f"no such call on {platform.machine()}")
    assert value(session, f"call({name!r}, {CALLS[name]})") in REFUSED


@pytest.mark.parametrize(
    "flag",
    [
        NEWNS,
        NEWCGROUP,
        NEWUTS,
        NEWIPC,
        NEWUSER,
        NEWPID,
        NEWNET,
        NEWTIME,
        NEWUSER | BRANCH,
        BRANCH | NEWPID,
        BRANCH | NEWTIME,
    ],
    ids=hex,
)
def test_no_namespace_can_be_made_by_unshare(session, value, flag):
    assert value(session, f"call('unshare', {flag})") == "EPERM"


@pytest.mark.parametrize(
    "flag", [NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, BRANCH, NEWUSER | BRANCH], ids=hex
)
def test_no_namespace_can_be_made_by_clone(session, value, flag):
    assert value(session, f"call('clone', {flag} | 17, 0, 0, 0, 0)") == "EPERM"


def test_without_forks_not_even_a_branch_can_be_made(make, value):
    session = make(forks=False)
    assert value(session, f"call('unshare', {BRANCH})") == "EPERM"
    assert value(session, "call('clone', 0x8000 | 17, 0, 0, 0, 0)") == "EPERM"


@pytest.mark.parametrize(
    "gain",
    [
        "call('mount', b'none', b'/home/agent/work', b'tmpfs', 0, None)",
        "call('mount', b'/usr', b'/home/agent/work', None, 0x1000, None)",
        "call('mount', None, b'/usr', None, 32 | 0x1000, None)",
        "call('umount2', b'/proc', 2)",
        "call('umount2', b'/home/agent', 2)",
        "call('pivot_root', b'.', b'.')",
        "call('setns', os.open('/proc/self/ns/mnt', os.O_RDONLY), 0)",
        "call('open_tree', -100, b'/', 1)",
        "call('mount_setattr', -100, b'/usr', 0, struct.pack('QQQQ', 0, 1, 0, 0), 32)",
        "call('sethostname', b'owned', 5)",
        "call('unshare', 0x10000000)",
        "attempt(socket.socket, socket.AF_INET)",
        "attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW)",
        "attempt(open, '/proc/1/mem', 'rb')",
        "attempt(os.kill, 1, 0)",
        "attempt(open, '/usr/probe', 'w')",
        "attempt(open, '/proc/self/uid_map', 'w')",
    ],
)  # fmt: skip
def test_the_one_unshare_that_forks_need_gains_nothing(session, value, gain):
    assert value(session, f"call('unshare', {BRANCH})") == 0
    assert value(session, gain) in (*REFUSED, "EAFNOSUPPORT", "EROFS")


def test_a_process_that_has_unshared_still_ends_with_its_session(sandbox, arm, marker, marked, eventually):
    session = arm(sandbox.start())
    session.run(
        f"call('unshare', {BRANCH}); subprocess.Popen(['{marker}', '600'], executable='/bin/sleep', start_new_session=True)\nNone"
    )
    assert eventually(lambda: marked(marker))
    session.close()
    assert not marked(marker)


def test_a_session_that_has_unshared_can_still_be_used(session, value):
    value(session, f"x = 5; call('unshare', {BRANCH})")
    session.write_file("seen", b"yes")
    assert value(session, "x, open('seen').read()") == [5, "yes"]


@pytest.mark.parametrize("forks", [True, False])
def test_capabilities_are_one_or_none(make, value, forks):
    found = value(
        make(forks=forks),
        "{line.split(':')[0]: int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith('Cap')}",
    )
    most = 1 << 21 if forks else 0  # CAP_SYS_ADMIN, of its own user namespace
    assert all(held & ~most == 0 for held in found.values())
    assert found["CapInh"] == found["CapAmb"] == 0


def test_a_program_that_is_started_has_no_capability(session, value):
    found = value(session, "subprocess.run(['/bin/cat', '/proc/self/status'], capture_output=True, text=True).stdout")
    held = {line.split(":")[0]: int(line.split()[1], 16) for line in found.splitlines() if line.startswith("Cap")}
    assert held["CapEff"] == held["CapPrm"] == held["CapAmb"] == 0


def test_no_new_privileges_and_the_filter_are_on_in_children_too(session, value):
    code = "subprocess.run(['/bin/cat', '/proc/self/status'], capture_output=True, text=True).stdout"
    found = dict(line.split(":\t", 1) for line in value(session, code).splitlines() if ":\t" in line)
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


def test_a_set_uid_program_gains_nothing(session, value):
    assert value(
        session,
        """
import shutil
shutil.copy(shutil.which("id"), "id")
os.chmod("id", 0o6755)
[subprocess.run([each, "-u"], capture_output=True, text=True).stdout for each in ("./id", "id")]
""",
    ) in (["1000\n", "1000\n"], ["", "1000\n"])


def test_every_mount_of_the_host_is_without_set_uid(session, value):
    code = """
import glob
found = [each for each in glob.glob("/usr/bin/*") + glob.glob("/usr/sbin/*") if os.path.isfile(each) and os.stat(each).st_mode & 0o4000]
flags = {line.split()[4]: line.split()[5] for line in open("/proc/self/mountinfo")}
len(found), [each for each in flags if "nosuid" not in flags[each] and not each.startswith("/dev/")]
"""
    assert value(session, code)[1] == []


@pytest.mark.parametrize(
    "call",
    [
        "os.setuid(0)",
        "os.setgid(0)",
        "os.setresuid(0, 0, 0)",
        "os.setgroups([0])",
        "os.setuid(65534)",
        "os.setreuid(1, 1)",
    ],
)
def test_nobody_else_can_be_become(session, value, call):
    assert value(session, f"attempt(lambda: {call}), os.getuid(), os.geteuid(), os.getgid()") in (
        ["EPERM", 1000, 1000, 1000],
        ["EINVAL", 1000, 1000, 1000],
    )


@pytest.mark.parametrize("family", [number for number in range(47) if number != socket.AF_UNIX])
def test_no_socket_of_any_network_family_can_be_made(session, value, family):
    kinds = value(session, f"[call('socket', {family}, kind, 0) for kind in (1, 2, 3, 4, 5, 6, 10)]")
    assert set(kinds) == {"EAFNOSUPPORT"}


def test_no_name_is_resolved(session, value):
    assert value(session, "attempt(socket.getaddrinfo, 'example.com', 80)") != "allowed"


def test_no_network_interface_is_seen_but_a_loopback_that_is_down(session, value):
    seen = value(
        session,
        "[line.split(':')[0].strip() for line in open('/proc/self/net/dev').readlines()[2:]] if os.path.exists('/proc/self/net/dev') else []",
    )
    assert set(seen) <= {"lo"}


def test_a_listener_on_the_hosts_loopback_is_not_reached(session, value):
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert (
            value(session, f"attempt(socket.create_connection, ('127.0.0.1', {server.getsockname()[1]}), 2)")
            != "allowed"
        )


def test_a_child_cannot_be_traced(session, value):
    assert value(
        session,
        """
child = os.fork()
if not child:
    time.sleep(600)
outcome = [call("ptrace", 16, child, 0, 0), call("ptrace", 0x4206, child, 0, 0)]
os.kill(child, 9); os.waitpid(child, 0)
outcome
""",
    ) == ["EPERM", "EPERM"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is of x86_64")
def test_calls_by_their_x32_numbers_do_not_exist(session, value):
    assert value(
        session,
        "nr['x32'] = 0x40000000 | 101; nr['x32read'] = 0x40000000; [call('x32', 0, 0, 0, 0), call('x32read', 0, 0, 0)]",
    ) == ["ENOSYS", "ENOSYS"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="int 0x80 is of x86")
def test_calls_by_the_32_bit_gate_kill(session, value):
    assert (
        value(
            session,
            """
child = os.fork()
if not child:
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000cd80c3"))  # getpid
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
    os._exit(0)
os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
""",
        )
        == -31
    )


def test_numbers_that_no_call_has_do_not_exist(session, value):
    assert set(
        value(
            session,
            "found = []\nfor number in (470, 500, 1000, 4096, 2**31 - 1):\n nr['none'] = number\n found.append(call('none', 0))\nfound",
        )
    ) == {"ENOSYS"}


@pytest.mark.parametrize("option", [8, 22, 24, 26, 28, 31, 35, 41, 44, 47, 53, 55, 59, 65])
def test_attributes_of_the_process_that_matter_cannot_be_changed(session, value, option):
    assert value(session, f"call('prctl', {option}, 1, 0, 0, 0)") == "EPERM"


@pytest.mark.parametrize("request_", [0x5412, 0x541C, 0x5423, 0x8901, 0x8902])
def test_no_terminal_is_written_to_and_no_owner_set_by_ioctl(session, value, request_):
    assert value(session, f"call('ioctl', 1, {request_}, b'x')") == "EPERM"


@pytest.mark.parametrize("command", [8, 10, 15])
def test_no_signal_is_sent_to_others_through_a_file(session, value, command):
    assert value(session, f"call('fcntl', 1, {command}, 1)") == "EPERM"


def test_no_other_process_can_be_rescheduled(session, value):
    assert (
        value(
            session,
            "[call('sched_setaffinity', 1, 8, b'\\1' * 8), call('setpriority', 0, 1, 19), call('setpriority', 2, 0, 19)]",
        )
        == ["EPERM"] * 3
    )


def test_priority_cannot_be_raised(session, value):
    assert value(session, "attempt(os.nice, -5)") != "allowed"


def test_real_time_is_not_to_be_had(session, value):
    assert value(session, "attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))") != "allowed"


def test_no_core_is_dumped(session):
    session.run("os.abort()")
    assert session.list_files() == {}

import ctypes
import errno
import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envweave.sandbox.guest import linux, syscalls
from support.child import in_child
from support.need import need

pytestmark = pytest.mark.skipif(not syscalls.machine(), reason="Linux on x86_64 or aarch64 only")

OWN = linux.NEWUSER | linux.NEWNS | linux.NEWUTS


def status(field: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(f"{field}:"))


@pytest.fixture
def namespaces() -> None:
    if in_child(lambda: linux.unshare(OWN)) is not None:
        need("namespace", "this kernel lets us make no user namespace")


def in_namespaces(work: Callable[[], object]) -> Any:
    def enter_and_work() -> object:
        user, group = os.getuid(), os.getgid()
        linux.unshare(OWN)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        linux.make_private()
        return work()

    return in_child(enter_and_work)


def in_clone(flags: int, work: Callable[[], object]) -> Any:
    """What `work` returns in a clone."""
    return in_child(work, lambda: linux.clone(flags))


def test_an_error_has_the_errno_and_names_the_call() -> None:
    with pytest.raises(OSError, match="setns 0x0: ") as caught:
        linux.setns(-1, 0)
    assert caught.value.errno == errno.EBADF


def test_a_call_that_no_table_has_is_enosys() -> None:
    with pytest.raises(OSError, match="no_such_call") as caught:
        linux.syscall("no_such_call")
    assert caught.value.errno == errno.ENOSYS


def test_the_modules_import_without_a_look_into_the_c_library() -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("looked up")

    def work() -> str:
        ctypes.PyDLL = ctypes.CDLL = refuse  # type: ignore[assignment,misc]
        sys.platform = "darwin"
        for name in ("syscalls", "linux", "seccomp", "landlock"):
            sys.modules.pop(f"envweave.sandbox.guest.{name}", None)
            importlib.import_module(f"envweave.sandbox.guest.{name}")
        return "imported"

    assert in_child(work) == "imported"


def test_numbers_of_both_machines_agree_with_the_kernels_headers() -> None:
    x86_64, aarch64 = syscalls.table("x86_64"), syscalls.table("aarch64")
    assert (x86_64["read"], x86_64["clone"], x86_64["seccomp"]) == (0, 56, 317)
    assert (aarch64["read"], aarch64["clone"], aarch64["seccomp"]) == (63, 220, 277)
    shared = {name for name, number in x86_64.items() if number >= 424}
    assert {x86_64[name] == aarch64[name] for name in shared} == {True}


def test_a_clone_is_the_first_process_of_its_namespace(namespaces: None) -> None:
    assert in_clone(OWN | linux.NEWPID, os.getpid) == 1


def test_a_clone_can_start_threads_and_programs(namespaces: None) -> None:
    def work() -> list[object]:
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(threading.current_thread().name))
        thread.start()
        thread.join()
        ran = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
        return [len(found), ran.stdout, threading.current_thread() is threading.main_thread()]

    assert in_clone(OWN | linux.NEWPID, work) == [1, "42\n", True]


def test_the_c_library_of_a_clone_knows_the_new_thread_id(namespaces: None) -> None:
    if not linux._thread_id_place():
        pytest.skip("this C library or kernel does not tell where the thread id is")
    assert in_clone(OWN | linux.NEWPID, lambda: linux._thread_id_place() != 0)


def test_a_clone_runs_the_hooks_of_a_fork() -> None:
    def work() -> list[str]:
        seen: list[str] = []
        os.register_at_fork(
            before=lambda: seen.append("before"),
            after_in_child=lambda: seen.append("child"),
            after_in_parent=lambda: seen.append("parent"),
        )
        return [*in_clone(0, lambda: seen), "|", *seen]

    assert in_child(work) == ["before", "child", "|", "before", "parent"]


def test_a_clone_that_fails_leaves_the_parent_able_to_fork() -> None:
    def work() -> list[object]:
        impossible = linux.NEWNS | 0x200  # CLONE_FS with a new mount namespace
        with pytest.raises(OSError, match="clone") as caught:
            linux.clone(impossible)
        return [errno.errorcode[caught.value.errno or 0], in_child(lambda: "forked")]

    assert in_child(work) == ["EINVAL", "forked"]


def test_a_clone_keeps_the_signal_mask() -> None:
    def blocked() -> bool:
        return signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    assert in_clone(0, blocked) is False


def test_a_hostname_of_ones_own_is_not_seen_outside(namespaces: None) -> None:
    def work() -> str:
        linux.set_hostname("jail")
        return os.uname().nodename

    assert in_namespaces(work) == "jail"
    assert os.uname().nodename != "jail"


def test_setns_enters_the_namespace_of_a_descriptor(namespaces: None) -> None:
    def work() -> bool:
        with open("/proc/self/ns/uts") as before:
            linux.set_hostname("jail")
            linux.unshare(linux.NEWUTS)
            linux.set_hostname("inner")
            linux.setns(before.fileno(), linux.NEWUTS)
        return os.uname().nodename == "jail"

    assert in_namespaces(work) is True


def test_a_mount_is_not_seen_outside(namespaces: None, tmp_path: Path) -> None:
    def work() -> list[str]:
        linux.mount("tmpfs", str(tmp_path), "tmpfs", linux.MS_NOSUID, "size=64k")
        (tmp_path / "inside").touch()
        return os.listdir(tmp_path)

    assert in_namespaces(work) == ["inside"]
    assert os.listdir(tmp_path) == []


def test_a_bind_brings_what_is_mounted_below(namespaces: None, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "below").mkdir(parents=True)
    target.mkdir()

    def work() -> bool:
        linux.mount("tmpfs", str(source / "below"), "tmpfs")
        (source / "below" / "file").touch()
        linux.bind(str(source), str(target))
        return (target / "below" / "file").exists()

    assert in_namespaces(work) is True


@pytest.mark.parametrize(("recursive", "below"), [(True, "EROFS"), (False, "written")])
def test_read_only_takes_writing_from_a_mount(namespaces: None, tmp_path: Path, recursive: bool, below: str) -> None:
    (tmp_path / "below").mkdir()

    def write(path: Path) -> str:
        try:
            path.touch()
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return "written"

    def work() -> list[str]:
        linux.bind(str(tmp_path), str(tmp_path))
        linux.mount("tmpfs", str(tmp_path / "below"), "tmpfs")
        linux.read_only(str(tmp_path), recursive=recursive)
        return [write(tmp_path / "file"), write(tmp_path / "below" / "file")]

    assert in_namespaces(work) == ["EROFS", below]


@pytest.mark.parametrize("devices", [True, False])
def test_read_only_leaves_device_files_only_where_asked(namespaces: None, tmp_path: Path, devices: bool) -> None:
    null = tmp_path / "null"
    null.touch()

    def work() -> str:
        linux.bind("/dev/null", str(null))
        linux.read_only(str(null), devices=devices)
        return null.read_text()

    assert in_namespaces(work) == ("" if devices else "EACCES")


def test_after_pivoting_the_old_root_is_gone(namespaces: None, tmp_path: Path) -> None:
    def work() -> list[object]:
        linux.mount("tmpfs", str(tmp_path), "tmpfs")
        (tmp_path / "all").touch()
        linux.pivot_into(str(tmp_path))
        return [os.listdir("/"), os.listdir("/.."), os.getcwd()]

    assert in_namespaces(work) == [["all"], ["all"], "/"]


def test_dropping_capabilities_leaves_none_and_no_way_back(namespaces: None) -> None:
    def work() -> list[str]:
        linux.drop_capabilities()
        return [status(name) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]

    assert set(in_namespaces(work)) == {"0" * 16}


@pytest.mark.parametrize("capability", [21, 38])  # of the low and of the high word
def test_a_capability_can_be_kept(namespaces: None, capability: int) -> None:
    def work() -> list[int]:
        linux.drop_capabilities(keep=[capability])
        return [int(status(name), 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapInh")]

    assert in_namespaces(work) == [1 << capability] * 3 + [0]


def test_a_kept_capability_ends_with_the_next_exec(namespaces: None) -> None:
    def work() -> str:
        linux.drop_capabilities(keep=[21])
        asked = subprocess.run(["/bin/grep", "CapEff", "/proc/self/status"], capture_output=True, text=True, check=True)
        return asked.stdout.split()[1]

    assert in_namespaces(work) == "0" * 16


def test_dropping_capabilities_works_for_one_who_has_none(namespaces: None) -> None:
    def work() -> str:
        linux.drop_capabilities()
        linux.drop_capabilities()
        return status("CapEff")

    assert in_namespaces(work) == "0" * 16


def test_no_new_privileges_is_set() -> None:
    def work() -> str:
        linux.no_new_privileges()
        return status("NoNewPrivs")

    assert in_child(work) == "1"


@pytest.mark.parametrize("dumpable", [True, False])
def test_dumpable_is_what_was_said(dumpable: bool) -> None:
    def work() -> bool:
        linux.set_dumpable(dumpable)
        return bool(linux.prctl("GET_DUMPABLE", 3))

    assert in_child(work) is dumpable


def test_a_subreaper_is_the_parent_of_orphans() -> None:
    def work() -> bool:
        linux.become_subreaper()
        reader, writer = os.pipe()
        if os.fork() == 0:
            if os.fork() == 0:
                os.close(writer)
                os.read(reader, 1)  # until nobody is left who could write
            os._exit(0)
        os.wait()  # the middle one is gone, and the orphan is ours
        os.close(writer)
        os.wait()
        return True

    assert in_child(work) is True


def test_a_child_dies_with_its_parent() -> None:
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        ready, set_up = os.pipe()
        if os.fork() == 0:
            linux.die_with_parent()
            os.write(set_up, b".")
            while True:
                signal.pause()
        os.read(ready, 1)
        os._exit(0)
    os.close(writer)
    os.waitpid(middle, 0)
    assert os.read(reader, 1) == b""  # the child held the other end too
    os.close(reader)

import errno
import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envweave.sandbox.guest import landlock, linux
from support.child import in_child
from support.need import need

SYSTEM = ["/usr", "/lib", "/lib64", "/bin", "/etc"]


@pytest.fixture(autouse=True)
def version() -> int:
    found = landlock.abi()
    if not found:
        need("landlock", "this kernel has no Landlock")
    return found


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Three folders with a file `old` in each: one to read, one to write, one that is not named."""
    for name in ("readable", "writable", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").write_text(name)
    return tmp_path


def restricted(
    work: Callable[[], object], *, readable: list[str] | None = None, writable: list[str] | None = None
) -> Any:
    """What `work` returns in a child that has only these paths, or the name of the errno that it fails with."""

    def restrict_and_work() -> object:
        linux.no_new_privileges()
        landlock.restrict(readable=readable or [], writable=writable or [])
        return work()

    return in_child(restrict_and_work)


def in_folders(folders: Path, work: Callable[[], object]) -> Any:
    return restricted(work, readable=[str(folders / "readable")], writable=[str(folders / "writable")])


def since(version: int, wanted: int) -> None:
    if version < wanted:
        need(f"landlock-{wanted}", f"this kernel has Landlock ABI {version}, and it takes {wanted}")


def test_a_path_that_is_not_named_cannot_be_read(folders: Path) -> None:
    assert in_folders(folders, (folders / "hidden" / "old").read_text) == "EACCES"


def test_a_folder_that_is_not_named_cannot_be_listed(folders: Path) -> None:
    assert in_folders(folders, lambda: os.listdir(folders)) == "EACCES"


def test_a_readable_path_can_be_read_and_listed(folders: Path) -> None:
    inside = folders / "readable"
    assert in_folders(folders, lambda: [(inside / "old").read_text(), os.listdir(inside)]) == ["readable", ["old"]]


def test_a_readable_path_cannot_be_written(folders: Path) -> None:
    assert in_folders(folders, lambda: (folders / "readable" / "old").write_text("new")) == "EACCES"


def test_nothing_can_be_made_in_a_readable_folder(folders: Path) -> None:
    assert in_folders(folders, (folders / "readable" / "new").mkdir) == "EACCES"


def test_nothing_can_be_removed_from_a_readable_folder(folders: Path) -> None:
    assert in_folders(folders, (folders / "readable" / "old").unlink) == "EACCES"


def test_a_writable_folder_can_be_changed_in_every_way(folders: Path) -> None:
    inside = folders / "writable"

    def work() -> list[str]:
        (inside / "below").mkdir()
        (inside / "old").rename(inside / "moved")
        (inside / "link").symlink_to("moved")
        os.mkfifo(inside / "pipe")
        (inside / "gone").touch()
        (inside / "gone").unlink()
        return sorted(os.listdir(inside))

    assert in_folders(folders, work) == ["below", "link", "moved", "pipe"]


def test_a_file_can_move_between_writable_folders(folders: Path, version: int) -> None:
    since(version, 2)
    (folders / "writable" / "below").mkdir()

    def work() -> str:
        moved = (folders / "writable" / "old").rename(folders / "writable" / "below" / "old")
        return moved.read_text()

    assert in_folders(folders, work) == "writable"


def test_a_file_cannot_be_linked_out_of_its_folder(folders: Path) -> None:
    secret, link = folders / "hidden" / "old", folders / "writable" / "link"
    assert in_folders(folders, lambda: link.hardlink_to(secret)) in ("EXDEV", "EACCES")


def test_a_symbolic_link_opens_nothing_new(folders: Path) -> None:
    link = folders / "writable" / "link"
    link.symlink_to(folders / "hidden" / "old")
    assert in_folders(folders, link.read_text) == "EACCES"


def test_a_readable_path_cannot_be_emptied(folders: Path, version: int) -> None:
    since(version, 3)
    assert in_folders(folders, lambda: os.truncate(folders / "readable" / "old", 0)) == "EACCES"


def test_a_single_file_can_be_named(folders: Path) -> None:
    file, beside = folders / "hidden" / "old", folders / "hidden" / "beside"
    beside.touch()

    def work() -> str:
        file.write_text("changed")
        beside.read_text()
        return "read beside it"

    assert restricted(work, writable=[str(file)]) == "EACCES"
    assert file.read_text() == "changed"


def test_paths_that_do_not_exist_are_passed_over(folders: Path) -> None:
    old = folders / "readable" / "old"
    named = [str(folders / "no such"), str(old / "below a file"), str(old)]
    assert restricted(old.read_text, readable=named, writable=["/no/such"]) == "readable"


def test_programs_run_from_readable_paths_and_are_restricted_too(folders: Path) -> None:
    def work() -> str:
        command = ["/bin/cat", str(folders / "readable" / "old"), str(folders / "hidden" / "old")]
        return subprocess.run(command, capture_output=True, text=True, check=False, stdin=0).stdout

    assert restricted(work, readable=[*SYSTEM, str(folders / "readable")]) == "readable"


def test_a_program_in_a_path_that_is_not_named_does_not_run(folders: Path) -> None:
    assert in_folders(folders, lambda: os.execv("/bin/true", ["true"])) == "EACCES"


def test_no_device_takes_ioctls_unless_it_is_writable(version: int) -> None:
    since(version, 5)

    def ask() -> int:
        with open("/dev/random", "rb", buffering=0) as device:
            return len(fcntl.ioctl(device, 0x8004_5200, b"\0" * 4))  # RNDGETENTCNT

    assert restricted(ask, readable=["/dev/random"]) == "EACCES"
    assert restricted(ask, writable=["/dev/random"]) == 4


def test_tcp_connects_to_nothing(version: int) -> None:
    since(version, 4)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert restricted(lambda: socket.create_connection(server.getsockname()).close()) == "EACCES"


def test_tcp_listens_on_nothing(version: int) -> None:
    since(version, 4)
    assert restricted(lambda: socket.create_server(("127.0.0.1", 0)).close()) == "EACCES"


def test_a_process_outside_cannot_be_signalled(version: int) -> None:
    since(version, 6)
    assert restricted(lambda: os.kill(os.getppid(), 0)) == "EPERM"


def test_a_child_of_ones_own_can_be_signalled(version: int) -> None:
    def work() -> int:
        child = os.fork()
        if child == 0:
            while True:
                signal.pause()
        os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert restricted(work) == -signal.SIGKILL


def test_an_abstract_socket_outside_cannot_be_reached(version: int) -> None:
    since(version, 6)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(b"\0envweave-test-%d" % os.getpid())
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            assert restricted(lambda: client.connect(server.getsockname())) == "EPERM"


def test_a_socket_with_a_path_outside_cannot_be_reached(folders: Path, version: int) -> None:
    since(version, 9)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folders / "hidden" / "service"))
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            assert in_folders(folders, lambda: client.connect(server.getsockname())) == "EACCES"


def test_udp_sends_nothing(version: int) -> None:
    since(version, 10)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        assert restricted(lambda: client.sendto(b"out", ("127.0.0.1", 9))) == "EACCES"


def test_no_mount_can_be_changed(tmp_path: Path) -> None:
    assert restricted(lambda: linux.mount("tmpfs", str(tmp_path), "tmpfs"), writable=["/"]) == "EPERM"


def test_a_file_that_is_open_already_stays_open(folders: Path) -> None:
    with open(folders / "hidden" / "old") as opened:
        assert in_folders(folders, opened.read) == "hidden"


def test_paths_that_are_not_named_can_still_be_seen(folders: Path) -> None:
    assert in_folders(folders, lambda: (folders / "hidden" / "old").stat().st_size) == len("hidden")


def test_no_descriptor_is_left_behind() -> None:
    def restrict_and_count() -> list[int]:
        before = len(os.listdir("/proc/self/fd"))
        linux.no_new_privileges()
        landlock.restrict(readable=["/proc", "/usr"], writable=[])
        return [before, len(os.listdir("/proc/self/fd"))]

    before, after = in_child(restrict_and_count)
    assert after == before


def test_without_landlock_restricting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, *_: object) -> int:
        raise OSError(errno.ENOSYS, name)

    monkeypatch.setattr(linux, "syscall", absent)
    assert landlock.abi() == 0
    with pytest.raises(OSError, match="landlock_create_ruleset"):
        landlock.restrict(readable=["/"], writable=[])

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from envweave.sandbox.guest import files
from envweave.sandbox.guest.files import Refused


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A work folder, with a secret beside it."""
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("outside")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def read(root: Path, path: str, limit: int = 1000) -> bytes:
    return files.read(str(root), path, limit)


def write(root: Path, path: str, data: bytes = b"new") -> None:
    files.write(str(root), path, data)


def copied(source: Path, target: Path) -> Path:
    target.mkdir()
    ends = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (source, target)]
    try:
        files.copy_tree(*ends)
    finally:
        for end in ends:
            os.close(end)
    return target


def test_what_is_written_can_be_read(root: Path) -> None:
    write(root, "a/b/c.bin", bytes(range(256)))
    assert read(root, "a/b/c.bin") == bytes(range(256))


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "b/./a.txt", "b//a.txt"])
def test_a_path_may_be_written_loosely(root: Path, path: str) -> None:
    write(root, path)
    assert read(root, path) == b"new"


WRONG = ["", ".", "./", "/", "/etc/passwd", "..", "../secret.txt", "a/../../secret.txt", "a/..", "a\0b", "a/\0"]


@pytest.mark.parametrize("path", WRONG, ids=repr)
def test_a_path_that_names_nothing_below_is_not_read(root: Path, path: str) -> None:
    with pytest.raises(Refused):
        read(root, path)


@pytest.mark.parametrize("path", WRONG, ids=repr)
def test_a_path_that_names_nothing_below_is_not_written(root: Path, path: str) -> None:
    with pytest.raises(Refused):
        write(root, path)
    assert list(root.iterdir()) == []


def test_what_is_not_there_cannot_be_read(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(root, "a.txt")
    with pytest.raises(FileNotFoundError):
        read(root, "a/b.txt")


def test_a_link_in_the_place_of_the_file_is_not_read(root: Path) -> None:
    (root / "link").symlink_to("../secret.txt")
    with pytest.raises(OSError, match="symbolic"):
        read(root, "link")


def test_a_link_within_the_folder_is_not_read_either(root: Path) -> None:
    write(root, "a.txt")
    (root / "link").symlink_to("a.txt")
    with pytest.raises(OSError, match="symbolic"):
        read(root, "link")


@pytest.mark.parametrize("path", ["link/a.txt", "a/link/a.txt", "link/a/b.txt"])
@pytest.mark.parametrize("use", [read, write], ids=["read", "write"])
def test_a_link_in_the_place_of_a_folder_is_not_followed(
    root: Path, path: str, use: Callable[[Path, str], object]
) -> None:
    (root / "a").mkdir()
    for link in (root / "link", root / "a" / "link"):
        link.symlink_to(root.parent / "outside")
    with pytest.raises(OSError, match=r"symbolic|Not a directory"):
        use(root, path)
    assert sorted(path.name for path in (root.parent / "outside").iterdir()) == ["a.txt"]
    assert (root.parent / "outside" / "a.txt").read_text() == "outside"


def test_a_link_in_the_place_of_the_root_is_not_followed(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to("outside")
    for use in (lambda: read(link, "a.txt"), lambda: write(link, "a.txt"), lambda: files.listing(str(link), 10)):
        with pytest.raises(OSError, match=r"symbolic|Not a directory"):
            use()


def test_writing_replaces_a_link_and_leaves_its_target(root: Path) -> None:
    (root / "link").symlink_to("../secret.txt")
    write(root, "link")
    assert (root.parent / "secret.txt").read_text() == "secret"
    assert not (root / "link").is_symlink()


def test_writing_replaces_a_hard_link_and_leaves_its_other_name(root: Path) -> None:
    (root / "hard").hardlink_to(root.parent / "secret.txt")
    write(root, "hard")
    assert (root.parent / "secret.txt").read_text() == "secret"


def test_writing_replaces_a_fifo_and_does_not_wait(root: Path) -> None:
    os.mkfifo(root / "pipe")
    write(root, "pipe")
    assert read(root, "pipe") == b"new"


def test_reading_a_fifo_is_refused_and_does_not_wait(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(Refused, match="regular"):
        read(root, "pipe")


def test_reading_a_folder_is_refused(root: Path) -> None:
    (root / "a").mkdir()
    with pytest.raises((Refused, IsADirectoryError)):
        read(root, "a")


def test_writing_to_a_folder_is_refused(root: Path) -> None:
    (root / "a").mkdir()
    with pytest.raises((IsADirectoryError, PermissionError)):
        write(root, "a")
    assert (root / "a").is_dir()


def test_a_file_in_the_place_of_a_folder_is_refused(root: Path) -> None:
    write(root, "a")
    with pytest.raises(NotADirectoryError):
        read(root, "a/b")
    with pytest.raises(NotADirectoryError):
        write(root, "a/b")


def test_a_file_that_is_too_large_is_refused_with_its_size(root: Path) -> None:
    write(root, "a", b"x" * 11)
    with pytest.raises(Refused, match="11 bytes, more than 10"):
        read(root, "a", 10)
    assert read(root, "a", 11) == b"x" * 11


def test_a_file_full_of_holes_is_refused_before_it_is_read(root: Path) -> None:
    write(root, "a", b"")
    os.truncate(root / "a", 1 << 40)
    with pytest.raises(Refused, match="more than"):
        read(root, "a", 1 << 20)


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "link").symlink_to("../outside")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b.txt", "link/a.txt", "../x", "missing/x"):
        for use in (read, write):
            try:
                use(root, path)
            except (OSError, Refused):
                pass
    files.listing(str(root), 1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_list_has_files_and_nothing_else(root: Path) -> None:
    write(root, "b.txt", b"12")
    write(root, "a/c.txt", b"123")
    (root / "empty").mkdir()
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("../secret.txt")
    (root / "folder").symlink_to("../outside")
    assert files.listing(str(root), 100) == {"a/c.txt": 3, "b.txt": 2}


def test_the_list_has_no_more_than_asked_for(root: Path) -> None:
    for number in range(20):
        write(root, f"{number:02}.txt")
    assert list(files.listing(str(root), 3)) == ["00.txt", "01.txt", "02.txt"]


def test_the_list_of_folders_without_end_ends(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("deeper", dir_fd=here)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    write(root, "a.txt")
    assert files.listing(str(root), 100) == {"a.txt": 3}


def test_a_copy_has_files_folders_links_modes_and_times(root: Path, tmp_path: Path) -> None:
    write(root, "a/run.sh", b"#!/bin/sh")
    (root / "a" / "run.sh").chmod(0o751)
    os.utime(root / "a" / "run.sh", ns=(10**18, 10**18 + 7))
    (root / "link").symlink_to("../secret.txt")
    (root / "dangling").symlink_to("nowhere")
    (root / "a").chmod(0o500)
    target = copied(root, tmp_path / "copy")
    assert (target / "a" / "run.sh").read_bytes() == b"#!/bin/sh"
    assert stat.S_IMODE((target / "a" / "run.sh").stat().st_mode) == 0o751
    assert (target / "a" / "run.sh").stat().st_mtime_ns == 10**18 + 7
    assert stat.S_IMODE((target / "a").stat().st_mode) == 0o500
    assert os.readlink(target / "link") == "../secret.txt"
    assert os.readlink(target / "dangling") == "nowhere"


def test_a_copy_of_a_file_with_holes_has_holes(root: Path, tmp_path: Path) -> None:
    size = 64 << 20
    with open(root / "holes", "wb") as file:
        file.truncate(size)
        file.seek(32 << 20)
        file.write(b"island")
    target = copied(root, tmp_path / "copy")
    found = (target / "holes").stat()
    assert found.st_size == size
    assert found.st_blocks * 512 < 8 << 20
    with open(target / "holes", "rb") as file:
        file.seek(32 << 20)
        assert file.read(6) == b"island"


def test_what_is_no_file_cannot_be_copied(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(Refused, match="pipe"):
        copied(root, tmp_path / "copy")


def test_folders_without_end_cannot_be_copied(root: Path, tmp_path: Path) -> None:
    here = root
    for _ in range(80):
        here = here / "d"
        here.mkdir()
    with pytest.raises(Refused, match="deep"):
        copied(root, tmp_path / "copy")


def test_used_bytes_counts_what_is_used_and_follows_no_link(root: Path) -> None:
    big = root.parent / "outside" / "big"
    big.write_bytes(b"x" * (1 << 20))
    (root / "link").symlink_to("../outside")
    write(root, "a/b", b"x" * 100_000)
    assert 100_000 <= files.used_bytes(str(root)) < 500_000

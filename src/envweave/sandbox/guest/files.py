"""Files of a session, reached from outside its code. No symbolic link is followed, at no place of a path."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 64


class Refused(Exception):  # noqa: N818
    """The files cannot be reached that way; the text says why."""


def read(root: str, path: str, limit: int) -> bytes:
    folder, name = _parent(root, path, make=False)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Refused("it is not a regular file")
        if found.st_size > limit:
            raise Refused(f"it has {found.st_size} bytes, more than {limit}")
        return file.read(limit)


def write(root: str, path: str, data: bytes) -> None:
    """Put a new file in the place of what was there, all of it or nothing."""
    folder, name = _parent(root, path, make=True)
    beside = f".{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(beside, flags, 0o644, dir_fd=folder), "wb") as file:
            file.write(data)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise
    finally:
        os.close(folder)


def listing(root: str, most: int) -> dict[str, int]:
    """Regular files by path, with their sizes."""
    folder = os.open(root, _FOLDER)
    try:
        found: dict[str, int] = {}
        for path, size in _walk(folder, "", 0):
            found[path] = size
            if len(found) == most:
                break
        return found
    finally:
        os.close(folder)


def used_bytes(root: str) -> int:
    """What the files take, for places where no file system counts it."""
    total = 0
    for _, _, names, folder in os.fwalk(root):
        for name in names:
            try:
                total += os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def copy_tree(source: int, target: int, depth: int = 0) -> None:
    """Files, folders and links below one folder to another; what is none of these (a FIFO, a socket) is refused.

    Not what is mounted there: it is mounted at the other place, too.
    """
    device = os.fstat(source).st_dev
    if depth > _DEEPEST:
        raise Refused("its folders are nested too deep")
    with os.scandir(source) as entries:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            if found.st_dev != device:
                continue
            if stat.S_ISLNK(found.st_mode):
                os.symlink(os.readlink(entry.name, dir_fd=source), entry.name, dir_fd=target)
            elif stat.S_ISDIR(found.st_mode):
                _copy_folder(entry.name, source, target, depth)
                os.chmod(entry.name, stat.S_IMODE(found.st_mode), dir_fd=target)
            elif stat.S_ISREG(found.st_mode):
                _copy_file(entry.name, source, target, stat.S_IMODE(found.st_mode))
            else:
                raise Refused(f"{entry.name!r} is neither a file nor a folder")
            if not stat.S_ISLNK(found.st_mode):
                os.utime(entry.name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=target)


def _copy_folder(name: str, source: int, target: int, depth: int) -> None:
    with suppress(FileExistsError):  # it leads to something that is mounted
        os.mkdir(name, 0o700, dir_fd=target)
    inner = [os.open(name, _FOLDER, dir_fd=parent) for parent in (source, target)]
    try:
        copy_tree(inner[0], inner[1], depth + 1)
    finally:
        for descriptor in inner:
            os.close(descriptor)


def _copy_file(name: str, source: int, target: int, mode: int) -> None:
    inside = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=source)
    try:
        outside = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=target)
        try:
            _copy_data(inside, outside, os.fstat(inside).st_size)
            os.fchmod(outside, mode)
        finally:
            os.close(outside)
    finally:
        os.close(inside)


def _copy_data(source: int, target: int, size: int) -> None:
    """Only what holds data: a file with holes stays one."""
    os.ftruncate(target, size)
    place = 0
    while place < size:
        try:
            place = os.lseek(source, place, os.SEEK_DATA)
        except OSError:  # nothing but a hole from here on
            return
        end = os.lseek(source, place, os.SEEK_HOLE)
        os.lseek(target, place, os.SEEK_SET)
        while place < end and (sent := os.sendfile(target, source, place, end - place)):
            place += sent


def _walk(folder: int, prefix: str, depth: int) -> Iterator[tuple[str, int]]:
    if depth > _DEEPEST:
        return
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.is_file(follow_symlinks=False):
                yield prefix + entry.name, entry.stat(follow_symlinks=False).st_size
            elif entry.is_dir(follow_symlinks=False):
                inner = os.open(entry.name, _FOLDER, dir_fd=folder)
                try:
                    yield from _walk(inner, f"{prefix}{entry.name}/", depth + 1)
                finally:
                    os.close(inner)


def _parent(root: str, path: str, *, make: bool) -> tuple[int, str]:
    """The folder that holds the file, reached step by step, and the file's own name."""
    *folders, name = [part for part in path.split("/") if part not in ("", ".")] or [""]
    if not name or ".." in (*folders, name) or path.startswith("/") or "\0" in path:
        raise Refused("it does not name a file below the work folder")
    here = os.open(root, _FOLDER)
    try:
        for part in folders:
            if make:
                try:
                    os.mkdir(part, 0o755, dir_fd=here)
                except FileExistsError:
                    pass
            inner = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
    except BaseException:
        os.close(here)
        raise
    return here, name

"""A root folder with nothing in it but what may be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from envweave.sandbox.guest import linux
from envweave.sandbox.guest.plan import AGENT, HOME

_PLAIN = linux.MS_NOSUID | linux.MS_NODEV
_DEVICES = ("null", "zero", "full", "random", "urandom")
_SETTINGS = ("alternatives", "ld.so.cache", "localtime")
_LINKS = {
    "tmp": f"{HOME}/tmp",  # noqa: S108
    "work": f"{HOME}/work",
    "dev/shm": f"{HOME}/shm",
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
}
_BUILD_SITE = "/tmp"  # noqa: S108  (covered by a file system of our own, which nobody else sees)


COVERED: dict[str, str] = {}
"""Places that a session's home covers (an interpreter may lie below /tmp), and where the same is seen uncovered."""


def move_in(readable: Iterable[str], hidden: Iterable[str] = ()) -> None:
    """Build it and go there. Needs a mount namespace of its own, and leaves nothing of the host's behind.

    The folders in `hidden` are empty there.
    """
    linux.make_private()
    views = [(path, held) for path in readable if (held := _hold(path)) is not None]
    parts = [f"/dev/{name}" for name in _DEVICES] + [f"/etc/{name}" for name in _SETTINGS]
    views += [(path, held) for path in parts if (held := _hold(path)) is not None]
    linux.mount("tmpfs", _BUILD_SITE, "tmpfs", _PLAIN, "size=4m,mode=755")
    for folder in ("proc", "dev", "etc", HOME):
        os.makedirs(os.path.join(_BUILD_SITE, folder.lstrip("/")))
    shown = [place for path, held in views if (place := _show(held, path))]
    for path in hidden:
        _hide(path)
    for name, text in (("passwd", f"agent:x:{AGENT}:{AGENT}::{HOME}/work:/bin/sh\n"), ("group", f"agent:x:{AGENT}:\n")):
        _write(f"{_BUILD_SITE}/etc/{name}", text)
    for name, target in _LINKS.items():
        if not os.path.lexists(f"{_BUILD_SITE}/{name}"):
            os.symlink(target, f"{_BUILD_SITE}/{name}")
    mount_proc(f"{_BUILD_SITE}/proc")
    linux.pivot_into(_BUILD_SITE)
    for path in (*shown, *COVERED.values()):
        if not path.startswith("/dev/"):
            linux.read_only(path)
    linux.read_only("/", recursive=False)
    for _, held in views:
        os.close(held)


def mount_proc(path: str, options: str | None = None) -> None:
    linux.mount("proc", path, "proc", _PLAIN | linux.MS_NOEXEC, options)


def _hold(path: str) -> int | None:
    """A grip on something that a mount is about to cover."""
    try:
        return os.open(path, os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return None


def _show(held: int, path: str) -> str | None:
    """Let the thing appear under the same path: a link as a link, all else as a view, and say where that is mounted."""
    place = _inside(path)
    target = _BUILD_SITE + place
    if os.path.lexists(target):  # part of something that is there already
        return None
    if stat.S_ISLNK(os.fstat(held).st_mode):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(os.readlink("", dir_fd=held), target)
        return None
    _bind(held, target)
    if place.startswith(f"{HOME}/"):
        COVERED[place] = f"/.covered/{len(COVERED)}"
        _bind(held, _BUILD_SITE + COVERED[place])
    return place


def _bind(held: int, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if stat.S_ISDIR(os.fstat(held).st_mode):
        os.makedirs(target)
    else:
        _write(target, "")
    linux.bind(f"/proc/self/fd/{held}", target)


def _hide(path: str) -> None:
    """Mount an empty folder on each view of this one."""
    place = _inside(path)
    places = [place, *(seen + place.removeprefix(view) for view, seen in COVERED.items() if _is_below(place, view))]
    for target in (_BUILD_SITE + each for each in places):
        if os.path.isdir(target):
            linux.mount("tmpfs", target, "tmpfs", _PLAIN, "size=4k,mode=555")


def _is_below(place: str, view: str) -> bool:
    return place == view or place.startswith(f"{view}/")


def _inside(path: str) -> str:
    """Where something is seen: /tmp is a link."""
    return HOME + path if path.startswith("/tmp/") else path  # noqa: S108


def uncover() -> None:
    """In a new home: what lies below it, as it was before."""
    for place, seen in COVERED.items():
        os.makedirs(place, exist_ok=True)
        linux.bind(seen, place)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)

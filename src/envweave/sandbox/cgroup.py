"""Control groups, where we may make some: the one wall that bounds the memory of a session as a whole.

Probed by doing. Version 1 has a tree for each controller, version 2 one for all, in which a group that has
processes cannot have groups with controllers below it: there, only what was delegated to us can be used.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envweave.core.process_identity import is_dead, machine_id
from envweave.sandbox.waiting import BLOCKING, Wait, drive

_ROOT = Path("/sys/fs/cgroup")
_NUMBERS = itertools.count()
_TRIES = 400
SLACK = 32 << 20
"""Above the limit that the process itself runs into, which is the friendlier one."""


@dataclass(eq=False)
class Group:
    """The groups of one session."""

    folders: dict[str, Path]
    """By controller; the same for all of them in version 2."""
    _kills: int = 0

    version: int = 1
    _joining: threading.Thread | None = None

    def doors(self) -> list[int]:
        """Descriptors, one for each group, into which a process with one thread writes "0" to join.

        Who moves itself does not wait for others; who is moved does, for ten milliseconds and more after a pause. In
        version 2 there is no such difference, and no doors.
        """
        return [os.open(folder / "tasks", os.O_WRONLY) for folder in self.folders.values()] if self.version == 1 else []

    def add(self, pid: int) -> None:
        """Move a process here."""
        for folder in set(self.folders.values()):
            with suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(pid))

    def add_aside(self, pid: int) -> None:
        """The same without waiting for it. Until then the process is where it was, and bounded there."""

        def join() -> None:
            with suppress(OSError):  # the process has ended, or all is about to
                self.add(pid)

        self._joining = threading.Thread(target=join, name="cgroup", daemon=True)
        self._joining.start()

    def killed(self) -> bool:
        """Has the kernel killed a process here because memory ran out, since we last asked?"""
        before, self._kills = self._kills, self._count_kills()
        return self._kills > before

    def _count_kills(self) -> int:
        folder = self.folders.get("memory")
        if folder is None:
            return 0
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                for line in (folder / name).read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        return int(value)
        return 0

    async def remove(self, wait: Wait) -> None:
        """Needs to be empty; processes that have been killed take a moment to be gone, and on a busy machine longer."""
        while self._joining is not None and self._joining.is_alive():
            await wait.sleep(0.002)
        for _ in range(_TRIES):
            if self.is_removed():
                return
            await wait.sleep(0.005)
        _LATE.add(self)

    def is_removed(self) -> bool:
        """Try it now."""
        for folder in set(self.folders.values()):
            with suppress(OSError):
                folder.rmdir()
        if any(folder.exists() for folder in self.folders.values()):
            return False
        _MADE.discard(self)
        _LATE.discard(self)
        return True


_MADE: set[Group] = set()
"""Those that are not removed yet."""
_LATE: set[Group] = set()
"""Those of them whose processes were not gone when they should have been; whoever makes a group tries again."""
_AT_EXIT = threading.Event()


def _remove_left(owner: int) -> None:
    """At exit, after all fork-servers have ended: the groups of sessions that nobody has closed. No more are made."""
    if os.getpid() != owner:
        return
    _AT_EXIT.set()
    for group in list(_MADE):
        for folder in set(group.folders.values()):
            with suppress(OSError):
                folder.rmdir()


atexit.register(_remove_left, os.getpid())  # what is registered after this, as fork-servers are, runs before it


@dataclass(frozen=True)
class Groups:
    """What can be had here: where to make groups for which controller, and why not for others."""

    parents: dict[str, Path]
    version: int
    why: str

    def make(self, *, memory_bytes: int | None, processes: int | None) -> Group | None:
        """Groups for one session with these limits; None where there is nothing to limit, or nothing to do it with."""
        wanted = {"memory": memory_bytes, "pids": processes}
        if _AT_EXIT.is_set():
            raise OSError("this process is about to end")
        for late in list(_LATE):
            late.is_removed()
        name = f"envweave-{machine_id()}-{os.getpid()}-{next(_NUMBERS)}"
        folders = {
            key: self.parents[key] / name for key, value in wanted.items() if value is not None and key in self.parents
        }
        group = Group(folders, version=self.version)
        _MADE.add(group)
        try:
            for key, folder in folders.items():
                folder.mkdir(exist_ok=True)
                _set(folder, key, wanted[key] or 0, self.version)
        except OSError:
            drive(group.remove(BLOCKING))
            raise
        return group if folders else None


def _set(folder: Path, controller: str, value: int, version: int) -> None:
    if controller == "pids":
        (folder / "pids.max").write_text(str(value))
    elif version == 1:
        (folder / "memory.limit_in_bytes").write_text(str(value + SLACK))
    else:
        (folder / "memory.max").write_text(str(value + SLACK))
        with suppress(OSError):
            (folder / "memory.swap.max").write_text("0")
            (folder / "memory.oom.group").write_text("0")


def probe() -> Groups:
    """Make a group for each controller, limit it and remove it again: what works is used."""
    found: dict[str, Path] = {}
    reasons = []
    version = _version()
    for controller in ("memory", "pids"):
        parent = _own_group(controller, version)
        if parent is None:
            reasons.append(f"{controller}: not mounted")
            continue
        try:
            group = Groups({controller: parent}, version, "").make(memory_bytes=1 << 30, processes=64)
            if group is not None:
                drive(group.remove(BLOCKING))
                found[controller] = parent
        except OSError as error:
            reasons.append(f"{controller}: {os.strerror(error.errno or 0)}")
    if found:
        _sweep(found)
    return Groups(found, version, ", ".join(reasons))


def memory_of(pid: int) -> Group:
    """The group in which somebody else has the memory of a process counted; empty if it cannot be seen."""
    version = _version()
    folder = _group_of(str(pid), "memory", version)
    return Group({"memory": folder} if folder is not None and folder != _tree("memory", version) else {})


def _own_group(controller: str, version: int) -> Path | None:
    """The group this process is in, or the root of the tree where that is all we see of it."""
    root = _tree(controller, version)
    return (_group_of("self", controller, version) or root) if root.is_dir() else None


def _group_of(whose: str, controller: str, version: int) -> Path | None:
    with suppress(OSError):
        for line in Path(f"/proc/{whose}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(",") or (version == 2 and not controllers):
                here = _tree(controller, version) / path.lstrip("/")
                return here if here.is_dir() else None
    return None


def _tree(controller: str, version: int) -> Path:
    return _ROOT if version == 2 else _ROOT / controller


def _version() -> int:
    return 2 if (_ROOT / "cgroup.controllers").exists() else 1


def _sweep(parents: dict[str, Path]) -> None:
    """Groups of hosts that were killed before they could remove them."""
    for parent in parents.values():
        for folder in parent.glob(f"envweave-{machine_id()}-*"):
            if is_dead(folder.name.split("-")[2]):
                with suppress(OSError):
                    folder.rmdir()

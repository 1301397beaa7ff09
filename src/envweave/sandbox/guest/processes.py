"""The processes of a session, found through /proc: who they are, what they use, and how to stop them all."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_TRIES = 2000

Find = Callable[[], list[int]]


def everyone_else() -> list[int]:
    """In a process namespace of our own: all processes but this one."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def descendants() -> list[int]:
    """Without a namespace: children, their children and so on. Orphans are ours, for we are their reaper."""
    family, todo = [], [os.getpid()]
    while todo:
        born = children(todo.pop())
        family += born
        todo += born
    return family


def end(find: Find) -> None:
    """Kill them all, also those that are being born meanwhile, and wait until none is left."""
    _still(find, "ZX", (signal.SIGSTOP, signal.SIGKILL))  # stopped first: so they have no children while we are at it


def halt(find: Find) -> None:
    """Stop them all, also those that are being born meanwhile."""
    _still(find, "TtZX", (signal.SIGSTOP,))


def _still(find: Find, states: str, signals: tuple[signal.Signals, ...]) -> None:
    """Send signals until all are in one of these states, twice in a row: one that forks and ends may slip by once."""
    before: list[int] | None = None
    for _ in range(_TRIES):
        found = find()
        moving = [pid for pid in found if not _is(pid, states)]
        if not moving and found == before:
            return
        before = found
        for number in signals if moving else ():
            send(moving, number)
        if moving:  # a signal takes effect when a call of the kernel that is under way has ended
            time.sleep(0.0003)


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def all_others(number: signal.Signals) -> None:
    """Signal everybody in our process namespace but ourselves, its first process, at one stroke: none slips through."""
    send([-1], number)


def _is(pid: int, states: str) -> bool:
    """In one of these states with all its threads, or gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    found = (_stat(pid, thread) for thread in threads)
    return all(each is None or each[0] in states for each in found)


def threads(pid: int) -> int:
    found = _stat(pid)
    return int(found[17]) if found else 0


def cpu_seconds(pids: Iterable[int]) -> float:
    """Of these and of those children of theirs that they have waited for."""
    return sum(sum(int(ticks) for ticks in found[11:15]) for pid in pids if (found := _stat(pid))) / _TICKS


def memory_bytes(pids: Iterable[int], enough: int) -> int:
    """What they hold in memory. Pages they share are shared out, but only where the cheaper sum is more than enough.

    A fork is closed to our looks: what it shares with its own children counts twice.
    """
    rough = {pid: _sum(f"/proc/{pid}/status", ("RssAnon:", "RssShmem:")) or 0 for pid in pids}
    if sum(rough.values()) <= enough:
        return sum(rough.values())
    exact = {pid: _sum(f"/proc/{pid}/smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) for pid in rough}
    return sum(rough[pid] if size is None else size for pid, size in exact.items())


def parent_of(pid: int) -> int:
    """0 if there is none, or no such process."""
    found = _stat(pid)
    return int(found[1]) if found else 0


def namespace_of(pid: int) -> int | None:
    """The mount namespace, by which the processes of one branch are told from those of another."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return None


def _stat(pid: int, thread: str | None = None) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on; the second is a name and may hold anything."""
    try:
        with open(f"/proc/{pid}/task/{thread}/stat" if thread else f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _sum(path: str, keys: tuple[str, ...]) -> int | None:
    try:
        with open(path) as lines:
            return sum(int(line.split()[1]) for line in lines if line.startswith(keys)) * 1024
    except OSError:
        return None


def children(pid: int) -> list[int]:
    """Of all its threads, dead or alive."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as text:
                found += [int(child) for child in text.read().split()]
    except OSError:  # it has ended meanwhile, or this is not Linux
        pass
    return found

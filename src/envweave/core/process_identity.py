"""Identifies the process that owns a resource, so that what a killed process left behind can be found."""

from __future__ import annotations

import functools
import os
from pathlib import Path


@functools.cache
def machine_id() -> str:
    """Where our process IDs are valid: this boot of this machine, in this PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{os.stat('/proc/self/ns/pid').st_ino}.{boot.replace('-', '')[:12]}"
    except OSError:  # not Linux
        return "0"


def own_identity() -> str:
    """The current process, by its ID and its start time, because process IDs are reused."""
    return f"{os.getpid()}.{start_time(os.getpid())}"


def start_time(pid: int) -> int:
    """When a process of this machine started, in clock ticks; 0 if it does not exist or cannot be looked up."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def is_dead(owner: str) -> bool:
    """Whether an owner on this machine has ended; False if that cannot be told.

    `owner` is what `own_identity` returned there, or a bare process ID.
    """
    pid, _, started = owner.partition(".")
    if not (pid + (started or "0")).isdecimal() or not pid:
        return False
    if not os.path.exists(f"/proc/{pid}"):
        return os.path.exists("/proc/self")  # without /proc it cannot be told
    return bool(started) and started != "0" and start_time(int(pid)) not in (0, int(started))

"""Who made what: things that outlive a killed host carry its name, and the world in which that name holds."""

from __future__ import annotations

import functools
import os
from pathlib import Path


@functools.cache
def world() -> str:
    """Where the numbers of our processes hold, of all machines: an owner from elsewhere need not be dead."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{os.stat('/proc/self/ns/pid').st_ino}.{boot.replace('-', '')[:12]}"
    except OSError:  # not Linux
        return "0"


def me() -> str:
    """Ourselves, by the number of our process and the time of its birth: numbers are used again."""
    return f"{os.getpid()}.{born(os.getpid())}"


def born(pid: int) -> int:
    """When a process of this world began, in ticks; 0 if it is not there, or cannot be asked."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def is_dead(owner: str) -> bool:
    """An owner of this world: what `me` said there, or a bare number. Of what is neither nobody can tell."""
    pid, _, birth = owner.partition(".")
    if not (pid + (birth or "0")).isdecimal() or not pid:
        return False
    if not os.path.exists(f"/proc/{pid}"):
        return os.path.exists("/proc/self")  # else nobody can tell
    return bool(birth) and birth != "0" and born(int(pid)) not in (0, int(birth))

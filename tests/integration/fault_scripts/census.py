"""What a process holds: looked up in /proc."""

import os
import re
import time
import urllib.request
from dataclasses import dataclass


@dataclass(frozen=True)
class Census:
    """How much of everything there is."""

    sessions: int
    threads: int
    children: int
    files: int

    def within(self, other):
        mine, theirs = vars(self), vars(other)
        return all(mine[key] <= theirs[key] for key in mine)


def taken(server):
    threads = len(os.listdir(f"/proc/{server.pid}/task"))
    return Census(metric(server.url, "envweave_sessions"), threads, len(descendants(server.pid)), files_of(server.pid))


def files_of(pid):
    """Open files, but for the connection that a look at the metrics leaves behind for a moment."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def descendants(pid):
    """All processes below it, zombies included."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    parents[int(entry)] = int(stat.read().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def metric(url, name):
    with urllib.request.urlopen(f"{url}/metrics", timeout=30.0) as response:
        text = response.read().decode()
    return int(float(re.search(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)[1]))


def eventually(condition, *, within=30.0):
    """Wait until the condition holds; gives what it gave last."""
    end = time.monotonic() + within
    while True:
        found = condition()
        if found or time.monotonic() > end:
            return found
        time.sleep(0.02)

"""How much memory idle sessions take, and how many fit."""

from __future__ import annotations

import resource
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from bench.figure import Figure
from bench.timing import skip
from envweave.sandbox import Sandbox, Session
from envweave.sandbox.guest.processes import descendants

FEW, MANY = 20, 1000
START_TIMEOUT = 60.0
"""Seconds in which sessions are started."""
RESERVED = 1 << 30
"""Bytes of memory that stay available to others."""

_MIB = 1 << 20


def idle_memory(_: int) -> list[Figure]:
    """Worker and supervisor together, after one run each."""
    what = "private memory of an idle session, numpy preloaded"
    with Sandbox(preload=["numpy"]) as sandbox, ExitStack() as stack:
        stack.enter_context(sandbox.start()).run("x = 1")
        others, available = set(descendants()), available_bytes()
        for _ in range(FEW):
            stack.enter_context(sandbox.start()).run("x = 1")
        taken = (available - available_bytes()) / FEW / _MIB
        total: Counter[str] = Counter()
        try:
            for pid in set(descendants()) - others:
                total.update(_rollup(pid))
        except PermissionError as error:
            skip(what, error)
            return []
    private, pss = ((total[key] / FEW / _MIB) for key in ("Private", "Pss"))
    note = f"worker and supervisor; PSS {pss:.1f} MB, {taken:.1f} MB less available, mean of {FEW}"
    measured = {"available_mib": taken, **{key: value / FEW for key, value in total.items()}}
    return [Figure(what=what, value=private, unit="MB", at_most=8, note=note, measured=measured)]


def concurrent_sessions(_: int) -> list[Figure]:
    """Sessions that run at the same time. Each must answer after the last has started."""
    _allow_descriptors()
    with Sandbox(preload=["numpy"]) as sandbox, ExitStack() as stack:
        stack.enter_context(sandbox.start()).run("x = 1")
        available, began = available_bytes(), time.perf_counter()
        sessions: list[Session] = []
        while len(sessions) < MANY and time.perf_counter() - began < START_TIMEOUT and available_bytes() > RESERVED:
            sessions.append(stack.enter_context(sandbox.start()))
            sessions[-1].run(f"x = {len(sessions)}")
        started = time.perf_counter() - began
        answered = [session.run("x").return_value for session in sessions]
        run = time.perf_counter() - began - started
        taken = (available - available_bytes()) / max(1, len(sessions)) / _MIB
    alive = sum(answer == number for number, answer in enumerate(answered, 1))
    note = f"started in {started:.1f} s, all answered within {run:.2f} s, {taken:.1f} MB less available for each"
    measured = {"start_seconds": started, "run_seconds": run, "available_mib": taken}
    return [Figure(what="sessions alive at once", value=alive, unit="", at_least=MANY, note=note, measured=measured)]


def available_bytes() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * 1024


def _rollup(pid: int) -> dict[str, int]:
    """The private memory of a process, and its proportional share of all memory (PSS), in bytes."""
    found: Counter[str] = Counter()
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        key, value = line.split()[:2]
        found[key.rstrip(":")] += int(value) * 1024
    return {"Private": found["Private_Clean"] + found["Private_Dirty"], "Pss": found["Pss"]}


def _allow_descriptors() -> None:
    """A session takes five file descriptors of this process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

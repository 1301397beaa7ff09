"""The figures of handles and vectors in one process.

Workloads take turns in slices of 50 ms, each in a process of its own. New processes are started several
times, because two processes with the same workload differ by some percent. All of it is measured in CPU time.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import AsyncExitStack

from rich.progress import track

from bench.comparison import Comparison, Slice, take_turns
from bench.core.slow_steps import busy_shares
from bench.figure import Figure
from bench.process import WorkerProcess
from bench.timing import CONSOLE, alternate

PROCESSES = 5
"""How often the processes are started anew."""
SLICE = 0.05
"""Seconds."""

HANDLES = ("counter_alone", "counter_typed", "counter_dict")
TRIVIAL = ("trivial_envweave", "trivial_gymnasium")
CARTPOLES = ("cartpole_envweave", "cartpole_gymnasium", "cartpole_loop")


def measure(rounds: int) -> list[Figure]:
    """The figures, with their numbers in `measured`. Takes about a minute with twenty rounds."""
    figures: list[Figure] = []
    for part in track((_handles, _trivial, _cartpoles, _slow_steps, _import), "measuring core", console=CONSOLE):
        figures += part(rounds)
    return figures


def _handles(rounds: int) -> list[Figure]:
    slices = asyncio.run(_slices(HANDLES, rounds))
    alone = slices["counter_alone"]
    return [
        Comparison(slices["counter_typed"], alone).overhead_figure(
            "handle step, typed action, over the environment", at_most=2
        ),
        Comparison(slices["counter_dict"], alone).overhead_figure(
            "handle step, dict action, over the environment", at_most=5
        ),
    ]


def _trivial(rounds: int) -> list[Figure]:
    slices = asyncio.run(_slices(TRIVIAL, rounds))
    compared = Comparison(slices["trivial_envweave"], slices["trivial_gymnasium"])
    return [compared.cpu_figure("vector of 256 trivial / gymnasium SyncVectorEnv", at_least=0.8)]


def _cartpoles(rounds: int) -> list[Figure]:
    slices = asyncio.run(_slices(CARTPOLES, rounds))
    loop = slices["cartpole_loop"]
    return [
        Comparison(slices["cartpole_envweave"], loop).cpu_figure("vector of 256 CartPoles / plain loop", at_least=0.85),
        Comparison(slices["cartpole_gymnasium"], loop).cpu_figure("the same for gymnasium SyncVectorEnv"),
    ]


async def _slices(names: tuple[str, ...], rounds: int) -> dict[str, list[Slice]]:
    found: dict[str, list[Slice]] = {name: [] for name in names}
    for _ in range(PROCESSES):
        async with AsyncExitStack() as stack:
            workers = [
                await stack.enter_async_context(WorkerProcess("-m", "bench.core.workloads", name)) for name in names
            ]
            every = await take_turns(*workers, rounds=rounds, seconds=SLICE)
        for name, slices in zip(names, every, strict=True):
            found[name] += slices
    return found


def _slow_steps(rounds: int) -> list[Figure]:
    shares = busy_shares(rounds)
    what = "64 threads, 5 % slow steps, recv(min_ready=1) / ideal"
    return [Figure.of(shares, what=what, at_least=0.85, measured={"shares": shares})]


def _import(rounds: int) -> list[Figure]:
    """What `import envweave` adds to the CPU time of the interpreter, which is the time on an idle machine."""
    alone, with_it = alternate(rounds, [lambda: [_python("pass")], lambda: [_python("import envweave")]])
    added = [own - other for own, other in zip(with_it.medians, alone.medians, strict=True)]
    note = f"{with_it.median:.3f} - {alone.median:.3f} s"
    measured = {"unit": "s", "with": with_it.rounds, "without": alone.rounds}
    return [Figure.of(added, what="import envweave, CPU time", unit="s", at_most=0.15, note=note, measured=measured)]


def _python(code: str) -> float:
    """CPU seconds of an interpreter that runs the code."""
    process = subprocess.Popen([sys.executable, "-c", code])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{code!r} failed; its error is above")
    return usage.ru_utime + usage.ru_stime

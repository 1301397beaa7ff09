"""CPython in a process of its own, confined by the kernel: the default on Linux, without Docker and without root.

Covered: filled in below.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Literal

from envweave.errors import IsolationError, SandboxError
from envweave.sandbox import cgroup
from envweave.sandbox.base import Boundary, Place
from envweave.sandbox.forkserver import ForkServer
from envweave.sandbox.guest.plan import Plan
from envweave.sandbox.limits import Limits
from envweave.sandbox.report import Layer, Report
from envweave.sandbox.waiting import BLOCKING, Wait, drive

Isolation = Literal["auto", "namespace", "landlock", "process", "unsafe"]

TIERS = ("unsafe", "process", "landlock", "namespace")
"""From the weakest to the strongest."""

NOBODY = 65534
"""Whom sessions run as where the host is root."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


class ProcessBoundary(Boundary):
    """A fork-server, and the walls that could be had for it."""

    def __init__(
        self,
        *,
        isolation: Isolation = "auto",
        min_isolation: str | None = None,
        python: str | None = None,
        preload: Iterable[str] = (),
        readable: Iterable[str] = (),
        forks: bool = True,
    ) -> None:
        self.python = python or sys.executable
        self.preload = tuple(preload)
        self.readable = tuple(dict.fromkeys((*_SYSTEM, *_installation(self.python), *map(os.path.abspath, readable))))
        self.forks = forks
        self.groups = None
        self._tried: dict[str, str] = {}
        """Stronger tiers, and why they cannot be had."""
        self.tier, self.server = self._strongest(isolation, min_isolation)
        groups = cgroup.probe() if sys.platform == "linux" and self.tier != "unsafe" else None
        self._no_groups = groups.why if groups else "not on this system"
        self.groups = groups if groups and groups.parents else None

    def _strongest(self, isolation: str, min_isolation: str | None) -> tuple[str, ForkServer]:
        tiers = TIERS[:0:-1] if isolation == "auto" else (isolation,)
        for tier in tiers:
            if min_isolation is not None and TIERS.index(tier) < TIERS.index(min_isolation):
                break
            try:
                return tier, self._try(tier)
            except SandboxError as error:
                self._tried[tier] = error.message
        reasons = "; ".join(f"{tier}: {reason}" for tier, reason in self._tried.items())
        wanted = min_isolation or isolation
        raise IsolationError(
            f"no isolation of strength {wanted!r} here: {reasons}", "`envweave doctor` shows what there is"
        )

    def _try(self, tier: str) -> ForkServer:
        """Start it, and a session in it: what works is known by doing it."""
        if tier in ("namespace", "landlock") and sys.platform != "linux":
            raise SandboxError(f"it takes Linux, and this is {sys.platform}")
        plan = Plan(tier, NOBODY, NOBODY, self.readable, self.preload, self.forks, os.getpid())
        server = ForkServer(self.python, plan)
        try:
            if tier == "landlock" and not server.hello["landlock"]:
                raise SandboxError("the kernel has no Landlock")
            if tier in ("namespace", "landlock") and not server.hello["seccomp"]:
                raise SandboxError("system calls cannot be filtered on this machine")
            supervision, _ = drive(server.open(BLOCKING, Limits()))
            drive(server.end(BLOCKING, supervision))
        except BaseException:
            server.close()
            raise
        return server

    async def open(self, wait: Wait, limits: Limits) -> Place:
        supervision, pid = await self.server.open(wait, limits)
        no_fork = ""
        if self.tier != "namespace":
            no_fork = f"a work folder of its own takes mount namespaces, and this is isolation {self.tier!r}"
        elif not self.forks:
            no_fork = "the sandbox was made with forks=False"
        return Place(supervision, pid, self._watch(), no_fork)

    def _watch(self) -> frozenset[str]:
        if self.tier == "unsafe":
            return frozenset()
        held = set(self.groups.parents) if self.groups else set()
        watch = set() if "memory" in held else {"memory_bytes"}
        if self.tier != "namespace":
            watch |= {"disk_bytes"} | (set() if "pids" in held else {"processes"})
        return frozenset(watch)

    async def end(self, wait: Wait, place: Place) -> None:
        await self.server.end(wait, place.supervision)

    def report(self) -> Report:
        return Report(self.tier, self._why(), tuple(self._layers()))

    def _why(self) -> str:
        if not self._tried:
            return "the strongest there is" if self.tier == "namespace" else "as asked for"
        return "; ".join(f"no {tier}: {reason}" for tier, reason in self._tried.items())

    def _layers(self) -> Iterable[Layer]:
        spaces, walled, limited = (
            self.tier == "namespace",
            self.tier in ("namespace", "landlock"),
            self.tier != "unsafe",
        )
        weak = f"not part of isolation {self.tier!r}"
        abi, filtered = self.server.hello["landlock"], self.server.hello["seccomp"]
        yield Layer("process", True, "a process of its own, with an empty environment and no descriptor of ours")
        user = (
            "as user 1000 of a user namespace" if spaces else f"as user {NOBODY if os.getuid() == 0 else os.getuid()}"
        )
        yield Layer("user", limited, f"{user}, never as the host's root" if limited else "as the user who started it")
        for name, what in (
            ("user namespace", "rights end at its wall"),
            ("mount namespace", "a read-only view of Python and the system's libraries, and nothing else of the host"),
            ("pid namespace", "it sees and signals its own processes only, and all end with it"),
            ("network namespace", "no network, not even the host's loopback"),
            ("ipc namespace", "no shared memory or queues of others"),
            ("uts namespace", "a host name of its own"),
        ):
            yield Layer(name, spaces, what if spaces else weak)
        yield Layer("no_new_privs", walled, "set-uid programs gain nothing" if walled else weak)
        kept = "one left, within its user namespace, to be forked with" if self.forks else "none left"
        yield Layer("capabilities", walled, kept if spaces else "none left" if walled else weak)
        yield Layer("seccomp", walled and filtered, "an allowlist of system calls" if walled and filtered else weak)
        yield Layer(
            "landlock", walled and abi > 0, f"ABI {abi}" if walled and abi else "not in this kernel" if walled else weak
        )
        yield Layer("rlimits", limited, "memory, files, open files, core" if limited else weak)
        for name in ("memory", "pids"):
            on = self.groups is not None and name in self.groups.parents
            yield Layer(
                f"{name} cgroup", on, "for each session" if on else (self._no_groups or weak) if limited else weak
            )
        yield Layer(
            "work folder",
            spaces,
            "in memory, of bounded size" if spaces else "in the temporary folder, its size watched",
        )

    @property
    def alive(self) -> bool:
        return self.server.alive

    def close(self) -> None:
        self.server.close()


def _installation(python: str) -> tuple[str, ...]:
    """Where an interpreter and its packages lie."""
    if os.path.abspath(python) == os.path.abspath(sys.executable):
        found = (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix)
    else:
        code = (
            "import json, sys; print(json.dumps([sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix]))"
        )
        try:
            said = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
            found = tuple(json.loads(said.stdout))
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            raise SandboxError(f"{python!r} is no Python that can be run", str(error)) from None
    return tuple(path for path in found if os.path.dirname(path) != path)

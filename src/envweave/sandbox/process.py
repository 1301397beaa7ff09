"""CPython in a process of its own, confined by the kernel: the default on Linux, without Docker and without root.

Covered: (with isolation "namespace"; behind each line the test in tests/security that shows it)

    time, of code that does not want to stop    code_that_does_not_want_to_stop_is_stopped_and_the_session_goes_on
    processor time of all its processes         processor_time_is_limited_over_all_processes
    memory, in any disguise                     memory_in_any_disguise_is_limited_too
    disk, single files, number of files         disk_is_limited_over_all_writable_places
    processes and threads                       processes_are_as_many_as_the_limit_says
    fork bombs                                  a_fork_bomb_ends_with_its_session
    output floods                               an_output_flood_is_cut_and_named
    recursion, the C stack                      an_overflow_of_the_stack_is_a_result
    gigantic values                             a_gigantic_value_is_cut_to_its_limit
    values that lie, hostile reprs              a_value_that_is_no_data_is_told_as_text_or_fails_in_itself
    hostile exceptions                          an_exception_of_any_kind_is_a_bounded_result
    invalid Unicode, ANSI                       text_of_any_kind_comes_out_as_text_that_can_be_encoded
    raising limits                              limits_cannot_be_raised
    exits, crashes, signals to itself           code_that_ends_its_process_is_a_result_and_the_session_goes_on
    signals to what holds it                    no_signal_reaches_the_first_process
    files of the host                           a_file_of_the_host_cannot_be_read
    writing outside                             only_the_folders_of_the_session_can_be_written_to
    symbolic links, in files taken out or put   a_folder_that_is_a_link_is_followed_neither_for_reading_nor_for_writing
    /proc                                       the_kernel_tells_nothing_in_proc
    processes of the host                       no_process_of_the_host_is_seen
    environment variables                       no_secret_of_the_host_is_in_the_environment
    memory of the host                          no_secret_of_the_host_is_anywhere_in_memory
    inherited descriptors                       no_file_of_the_host_is_open
    network of every family                     no_socket_of_any_network_family_can_be_made
    Unix sockets of the host                    an_abstract_unix_socket_of_the_host_is_not_there
    ptrace, mounts, keyrings, bpf and others    a_call_that_code_has_no_business_with_is_refused
    new namespaces                              no_namespace_can_be_made_by_unshare
    the one that forks need                     the_one_unshare_that_forks_need_gains_nothing
    set-uid programs                            a_set_uid_program_gains_nothing
    capabilities                                capabilities_are_one_or_none
    being the host's root                       a_worker_is_no_root_of_the_host
    calls of another architecture               calls_by_the_32_bit_gate_kill
    frames, gc, hooks, monkeypatching           sabotage_of_the_interpreter_stays_within_its_session
    closing descriptors                         closing_all_descriptors_ends_in_a_result
    forged and garbled answers                  a_forged_answer_of_any_shape_is_data
    protocol on stdout                          protocol_on_stdout_is_text
    secrets of tools                            a_secret_of_a_tool_is_not_in_the_memory_of_the_code
    tools outside a run                         a_tool_cannot_be_called_when_no_code_is_run
    threads and children between runs           what_a_run_leaves_behind_stands_still_until_the_next
    processes after the session                 no_process_outlives_its_session
    `__del__` and atexit at the end             closing_does_not_wait_for_exit_handlers_and_finalizers
    another session: files                      a_session_does_not_see_files_of_another
    another session: signals                    a_session_cannot_signal_another
    a fork and its family: memory               a_fork_and_its_family_do_not_read_each_others_memory
    a fork and its family: files                a_fork_and_its_family_do_not_write_each_others_files
    forks that lie                              a_fork_that_lies_about_its_process_harms_nobody
    what is left on the machine                 no_control_group_and_no_temporary_folder_is_left
    a host that is killed                       nothing_is_left_of_a_host_that_is_killed
    hosts that are not root                     an_ordinary_user_has_the_same_walls

Not covered:

    faults of the kernel, which the host and all sessions share, and of the processor (timing, caches);
    a session may signal, and so end, the forks and snapshots that were made of it, and see the files of a fork through
        programs that the fork runs; a fork nested more than fourteen deep may signal those it comes from. What is
        ended that way is noticed: a rollback is then a restart, a snapshot cannot be restored;
    memory, where there is no control group, is looked at ten times a second: until then it may be more than its limit;
    code that waits for a tool in one thread and computes in another is found out ten times a second, too;
    what tools do with their arguments;
    the weaker tiers: "landlock" sees the host's processes in /proc and shares its process numbers; "process" holds
        against accidents only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from envweave.errors import IsolationError, SandboxError, UsageError
from envweave.sandbox import cgroup
from envweave.sandbox.base import Boundary, Place
from envweave.sandbox.forkserver import ForkServer, UnfitError
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


_DATA = Path(__file__).absolute().parents[1] / "envs" / "data"
HIDDEN = tuple(dict.fromkeys((str(_DATA), str(_DATA.resolve()))))
"""Tasks with their hidden tests, which an installed envweave has among the interpreter's packages."""


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
        for path in readable:
            if not os.path.isabs(path):
                raise UsageError(f"readable has {path!r}", "name folders and files by their whole path")
        self.readable = tuple(dict.fromkeys((*_SYSTEM, *_installation(self.python), *map(os.path.normpath, readable))))
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
            except UnfitError as error:  # anything else may pass, and is no reason to do with less
                self._tried[tier] = error.message
        reasons = "; ".join(f"{tier}: {reason}" for tier, reason in self._tried.items())
        wanted = min_isolation or isolation
        raise IsolationError(
            f"no isolation of strength {wanted!r} here: {reasons}", "`envweave doctor` shows what there is"
        )

    def _try(self, tier: str) -> ForkServer:
        """Start it, and a session in it: what works is known by doing it."""
        if tier in ("namespace", "landlock") and sys.platform != "linux":
            raise UnfitError(f"it takes Linux, and this is {sys.platform}")
        plan = Plan(tier, NOBODY, NOBODY, self.readable, self.preload, self.forks, os.getpid(), HIDDEN)
        server = ForkServer(self.python, plan)
        try:
            if tier == "landlock" and not server.hello["landlock"]:
                raise UnfitError("the kernel has no Landlock")
            if tier in ("namespace", "landlock") and not server.hello["seccomp"]:
                raise UnfitError("system calls cannot be filtered on this machine")
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

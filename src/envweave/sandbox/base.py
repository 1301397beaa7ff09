"""The contract: code goes in, what it did comes out, and nothing else does.

    sandbox = Sandbox(limits=…, tools={"search": search}, files={"data.csv": b"…"})
    session = sandbox.start()
    result = session.run("print(len(open('data.csv').read()))")

Code that fails, exits, is cut off or kills its own process is a *result*: `success` is False, `limit` names the limit
that fired, `state` says what became of the session. An *error* is raised where the code could not be run at all:

    UsageError       the call was wrong: a closed or busy session, a fork that cannot be had, a value that is no data
    SandboxError     the machine cannot hold code that way, or the session is over

A `Boundary` is what differs between sandboxes: it opens `Place`s, and a session lives in one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from envweave.sandbox.cgroup import Groups
from envweave.sandbox.limits import LimitHit, Limits
from envweave.sandbox.report import Report
from envweave.sandbox.supervision import Supervision
from envweave.sandbox.waiting import Wait

State = Literal["kept", "rolled_back", "restarted", "ended"]
"""Of a session after a run: as the run left it; as it was before the run; empty but for its files; gone."""

AfterKill = Literal["restart", "rollback", "end"]


@dataclass(frozen=True, slots=True)
class ExceptionInfo:
    """What the code raised, or why it was stopped."""

    type: str
    message: str = ""
    traceback: str = ""
    """Its own lines only, numbered as they were sent."""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(slots=True, kw_only=True)
class ExecutionResult:
    """What a run did."""

    stdout: str = ""
    stderr: str = ""
    return_value: Any = None
    """The value of the last expression: as data where it is JSON, else as text."""
    return_is_data: bool = True
    """False if `return_value` is a `repr`, perhaps a shortened one."""
    success: bool = True
    exit_code: int = 0
    """0, 1 after an exception, what the code exited with, 124 if it was interrupted at a limit, or minus a signal."""
    exception: ExceptionInfo | None = None
    duration: float = field(default=0.0, compare=False)
    """Seconds by our clock, not the code's."""
    limit: LimitHit | None = None
    """The limit that fired."""
    state: State = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a session holds after a run."""

    variables: dict[str, str]
    """By name, with the `repr` of each; with the type of each if one of them did not end in time."""
    values: dict[str, Any]
    """The values that were asked for by name, as `get` returns them; names that do not exist are left out."""
    value: Any = None
    """That of the expression, which is data and may be as large as the arguments of a tool."""
    exception: ExceptionInfo | None = None
    """Why the expression has no value: it raised, did not end in time, or its value is too large or not data."""


@dataclass
class Place:
    """Where a session lives: the line to its supervisor, and what is to be done when it has ended."""

    supervision: Supervision
    supervisor: int | None
    """The supervisor's process as this side numbers it, where that is known."""
    watch: frozenset[str]
    """Limits that no wall of the kernel keeps here, so that the host has to look."""
    no_fork: str = ""
    """Why its sessions cannot be forked, if they cannot."""
    out_of_memory: Callable[[], bool] | None = None
    """Has the kernel killed a process of the place for its memory since we last asked? None where our groups know."""


class Boundary(ABC):
    """One way to keep code in. Places it has opened end with it."""

    groups: Groups | None = None
    """Control groups for its sessions, where there are some."""

    @abstractmethod
    async def open(self, wait: Wait, limits: Limits) -> Place:
        """A new place, with a supervisor that answers. Raises `SandboxError` with the reason."""

    @abstractmethod
    async def end(self, wait: Wait, place: Place) -> None:
        """End whatever is left of a place, and return when nothing is. Safe to call twice."""

    @abstractmethod
    def report(self) -> Report:
        """Which walls stand, and why others do not."""

    @property
    def alive(self) -> bool:
        """Can it still open places?"""
        return True

    @abstractmethod
    def close(self) -> None:
        """End all places. Safe to call twice."""

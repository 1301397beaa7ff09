"""A server process: how it is started and ended with its children, and how it is found after its owner died."""

from __future__ import annotations

import os
import re
import secrets
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from envweave.core import process_identity
from envweave.errors import ProviderError
from envweave.providers.base import labels
from envweave.providers.resource import Resource

LABEL = "ENVWEAVE_STARTED"
"""Environment variable of a process and its children: the mark of the start, its owner, machine, URL and subject."""
READY = re.compile(r" at (http://\S+) \(pid \d+\)")
"""The log line in which `envweave serve` reports its URL."""
_LOG_BYTES = 65536
"""How much of a log is searched for that line."""
_KILL_TIMEOUT = 10.0
_PAUSE = 0.02


class Process:
    """One command in its own process group, with its output in a file. Starts when created; `end` ends it."""

    def __init__(
        self, command: Sequence[str], what: str, variables: Mapping[str, str], cwd: str | None, url: str = ""
    ) -> None:
        """`url` is where it will listen, if that is known before it reports it in its log."""
        self._mark = secrets.token_hex(8)
        self._owner = os.getpid()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (without a name: nothing is left if we are killed)
        owner = f"{process_identity.own_identity()} {process_identity.machine_id()}"
        try:
            self.popen = subprocess.Popen(  # noqa: S603  (the caller's own command)
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env={**variables, LABEL: f"{self._mark} {owner} {url or '-'} {what}"},
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise ProviderError(f"cannot run {command[0]!r}: {error.strerror or error}") from error
        self.pid = self.popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.popen.poll()

    def log(self, tail: int | None = None) -> str:
        try:
            log = self._log.fileno()
            text = os.pread(log, os.fstat(log).st_size, 0).decode(errors="replace")
        except (OSError, ValueError):  # closed by `end`
            return ""
        return text if tail is None else "\n".join(text.splitlines()[-tail:])

    def end(self, timeout: float) -> None:
        """Send SIGTERM to the group, then kill what is left of it and of its children, and close the log."""
        if os.getpid() != self._owner:  # a forked copy does not own the process
            return
        if self.popen.poll() is None:
            self._signal_group(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(timeout)
        if self.popen.poll() is None:  # once it is reaped, its number may belong to another process
            self._signal_group(signal.SIGKILL)
            self.popen.wait()
        try:
            _kill_marked(self._mark)
        finally:
            self._log.close()

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def list_processes() -> list[Resource]:
    """Return the processes that envweave started on this machine and that we may inspect. Works on Linux only."""
    first: dict[str, tuple[int, str]] = {}
    for pid, label in sorted(_labelled_processes()):
        first.setdefault(label.partition(" ")[0], (pid, label))
    return [_resource(pid, label) for pid, label in first.values()]


def _resource(pid: int, label: str) -> Resource:
    mark, owner, world, url, what = [*label.split(" ", 4), "", "", "", ""][:5]
    return Resource.from_labels(
        {**labels(), "envweave.owner": owner, "envweave.world": world},
        where="process",
        name=str(pid),
        what=what,
        url=url if url.startswith("http") else _reported_url(pid),
        state="running",
        since=_start_time(pid),
        remove=partial(_kill_marked, mark),
    )


def _reported_url(pid: int) -> str:
    """Return the URL in the log of a process, which is its standard output; empty if there is none."""
    path = f"/proc/{pid}/fd/1"
    with suppress(OSError):  # it has ended, or belongs to another user
        if stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe would take the text from its reader
            with open(path, "rb") as log:
                match = READY.search(log.read(_LOG_BYTES).decode(errors="replace"))
            return match[1] if match else ""
    return ""


def _kill_marked(mark: str) -> None:
    """Kill all processes with the mark, in whatever group, including those that start meanwhile."""
    end = time.monotonic() + _KILL_TIMEOUT
    while pids := [pid for pid, label in _labelled_processes() if label.startswith(f"{mark} ")]:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise ProviderError(f"processes {pids} cannot be killed")
        time.sleep(_PAUSE)


def _labelled_processes() -> Iterator[tuple[int, str]]:
    """PIDs and labels, without zombies, which have no environment, and without processes of our own start."""
    key = f"{LABEL}=".encode()
    own = os.environ.get(LABEL, "").partition(" ")[0]
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
            variables = (folder / "environ").read_bytes().split(b"\0")
            found = next((each for each in variables if each.startswith(key)), b"")
            label = found.removeprefix(key).decode(errors="replace")
            if label and label.partition(" ")[0] != own:
                yield int(folder.name), label


def _start_time(pid: int) -> str:
    with suppress(OSError):
        return datetime.fromtimestamp(os.stat(f"/proc/{pid}").st_ctime, UTC).isoformat(timespec="seconds")
    return ""

"""A process that serves, from its start until it and its children are gone; and how to find it when its owner died."""

from __future__ import annotations

import os
import re
import secrets
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from envweave.core import process_identity
from envweave.errors import ProviderError
from envweave.providers.base import in_owner, labels
from envweave.providers.started import Started

LABEL = "ENVWEAVE_STARTED"
"""The variable that a process and all its children carry: which start they belong to, by whom, where, of what."""
READY = re.compile(r" at (http://\S+) \(pid \d+\)")
"""The line of a log in which `envweave serve` says where it listens."""
_LOG_BYTES = 65536
"""How much of a log is searched for that line; it is among the first."""
_PAUSE = 0.02


class Process:
    """One command in a process group of its own, with its output in a file. Starts when made; `end` it."""

    def __init__(
        self, command: Sequence[str], what: str, variables: Mapping[str, str], cwd: str | None, url: str = ""
    ) -> None:
        """`url` is where it will listen, if that is known before it says so in its log."""
        self._mark = secrets.token_hex(8)
        self._owner = os.getpid()
        self._log, path = tempfile.mkstemp(prefix="envweave-", suffix=".log")
        os.unlink(path)  # so that it is gone with us, however we end
        owner = f"{process_identity.own_identity()} {process_identity.machine_id()}"
        marked = {**variables, LABEL: f"{self._mark} {owner} {url or '-'} {what}"}
        try:
            self.popen = subprocess.Popen(  # noqa: S603  (the caller's own command)
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env=marked,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._log)
            raise ProviderError(f"cannot run {command[0]!r}: {error.strerror or error}") from error

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.popen.poll()

    def log(self, tail: int | None = None) -> str:
        try:
            text = os.pread(self._log, os.fstat(self._log).st_size, 0).decode(errors="replace")
        except OSError:  # it has ended
            return ""
        return text if tail is None else "\n".join(text.splitlines()[-tail:])

    def end(self, timeout: float) -> None:
        """Tell the group to stop, then kill what is left of it and of its children, and close the log."""
        if not in_owner(self._owner):
            return
        if self.popen.poll() is None:
            _signal_group(self.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(timeout)
        if self.popen.poll() is None:  # else its number may be somebody else's by now
            _signal_group(self.pid, signal.SIGKILL)
            self.popen.wait()
        try:
            _kill(self._mark)
        finally:
            log, self._log = self._log, -1
            if log >= 0:
                os.close(log)


def found() -> list[Started]:
    """All processes that envweave has started on this machine and that we may look at; only Linux can tell."""
    first: dict[str, tuple[int, str]] = {}
    for pid, label in _labelled():
        mark = label.partition(" ")[0]
        if mark not in first or pid < first[mark][0]:
            first[mark] = (pid, label)
    return [_started(pid, label) for pid, label in first.values()]


def _started(pid: int, label: str) -> Started:
    mark, owner, world, url, what = [*label.split(" ", 4), "", "", "", ""][:5]
    marks = {**labels(), "envweave.owner": owner, "envweave.world": world}
    return Started.labelled(
        marks,
        where="process",
        name=str(pid),
        what=what,
        url=url if url.startswith("http") else _url(pid),
        state="running",
        since=_since(pid),
        remove=_killer(mark),
    )


def _url(pid: int) -> str:
    """Where a process says that it listens; empty if it does not. Its log is its standard output, if that is a file."""
    path = f"/proc/{pid}/fd/1"
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # to read from a pipe would take the text from its reader
            return ""
        with open(path, "rb") as log:
            match = READY.search(log.read(_LOG_BYTES).decode(errors="replace"))
    except OSError:  # it has ended, or is somebody else's
        return ""
    return match[1] if match else ""


def _killer(mark: str) -> Callable[[], None]:
    return lambda: _kill(mark)


def _kill(mark: str) -> None:
    """All that carry the mark, whatever group they went into; those that are born meanwhile as well."""
    end = time.monotonic() + 10.0
    while pids := [pid for pid, label in _labelled() if label.startswith(f"{mark} ")]:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise ProviderError(f"processes {pids} cannot be killed")
        time.sleep(_PAUSE)


def _labelled() -> Iterator[tuple[int, str]]:
    """Processes with a label, but for zombies, which have no environment any more, and ourselves."""
    key = f"{LABEL}=".encode()
    own = os.environ.get(LABEL, "").partition(" ")[0]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        found = next((each for each in variables if each.startswith(key)), b"")
        label = found.removeprefix(key).decode(errors="replace")
        if label and label.partition(" ")[0] != own:
            yield int(folder.name), label


def _since(pid: int) -> str:
    try:
        return datetime.fromtimestamp(os.stat(f"/proc/{pid}").st_ctime, UTC).isoformat(timespec="seconds")
    except OSError:
        return ""


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)

"""`Recorder`: writes the episodes of one process to the folder of a run."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from envweave.errors import RecordError, UsageError
from envweave.record.blobs import Blobs
from envweave.record.log import EpisodeLog, Origin
from envweave.record.recovery import recover_unfinished
from envweave.record.redaction import Redactor
from envweave.record.segments import SegmentWriter
from envweave.record.writers import lock_writer, locked, new_writer, release_writer

_FULL = "free some space, or record to another folder"
_HINTS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EMFILE: "each open episode has a file: raise the limit of open files with `ulimit -n`",
}

_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


class Recorder:
    """A run to which episodes are added. Several threads and processes may record to the same folder.

        with Recorder("runs/x") as run:
            log = run.episode(env="lineworld", seed=0)
            log.reset(result)
            log.step(action, result)
            log.end("terminated")

    A process that was forked from this one records as a writer of its own. With `durable` each line survives a loss of
    power and not only the end of the process, which takes a millisecond for each. `compress="gzip"` compresses finished
    episodes. `secrets` are texts that must not appear in the record, besides those that are found by themselves.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        durable: bool = False,
        compress: str | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        """Raises `RecordError` if the folder cannot be written."""
        if compress not in (None, "gzip"):
            raise UsageError(f"compress is {compress!r}", "use 'gzip' or None")
        self.path = Path(path)
        self.durable = durable
        self._compress = compress is not None
        self._redactor = Redactor(secrets)
        self.redact: Callable[[bytes], bytes] = self._redactor.redact
        self.blobs = Blobs(self.path / "blobs", self.redact)
        self._live = self.path / "live"
        self._lock = threading.Lock()
        self._open: set[EpisodeLog] = set()
        self._envs: dict[str, Any] = {}
        self._episodes = 0
        self._pid = 0
        self._closed = False
        self._release = _release()
        try:
            self._live.mkdir(parents=True, exist_ok=True)
            recover_unfinished(self.path)
            self._start()
        except OSError as error:
            raise self.failure(error) from None
        _RECORDERS.add(self)

    def episode(self, **header: Any) -> EpisodeLog:
        """Begin the record of an episode. The fields are those of an `episode` line; without an ID it gets one."""
        return self._begin(header)

    def branch(self, origin: Origin) -> EpisodeLog:
        """Begin the record of an episode that goes on from a point of another."""
        return self._begin({}, origin)

    def _begin(self, header: dict[str, Any], origin: Origin | None = None) -> EpisodeLog:
        if self._closed:
            raise UsageError(f"the recorder of {self.path} is closed", "make a new one")
        if "args" in header:
            header["args"] = self._redactor.learned(header["args"])
        log = EpisodeLog(self, {**header, "envweave": self._release}, origin)
        self._note_env(log.header)
        return log

    def add(self, events: Sequence[Mapping[str, Any]]) -> str:
        """Add a whole episode, from its `episode` line to its `end`. Returns its ID."""
        header = {name: value for name, value in events[0].items() if name not in ("kind", "v", "envweave")}
        log = self.episode(**header)
        for event in events[1:-1]:
            log.line(event)
        last = {name: value for name, value in events[-1].items() if name not in ("kind", "return", "sha256")}
        log.end(**last, returns=events[-1].get("return"))
        return log.id

    def close(self) -> None:
        """End the writer. Episodes that are still open get the end `unfinished`. A second call does nothing.

        Raises `RecordError` if something cannot be written, when all is closed that can be closed.
        """
        if self._closed:
            return
        self._closed = True
        if self.forked:
            return  # nothing was written in this process
        release = partial(release_writer, self._live, self.writer, self._lock_fd)
        acts: list[Callable[[], Any]] = [partial(log.end, "unfinished") for log in self._open if not log.ended]
        acts += [partial(self._describe, ended=_now()), self._segment.close, release]
        failures: list[RecordError] = []
        for act in acts:
            try:
                act()
            except OSError as error:
                failures.append(self.failure(error))
            except RecordError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # What a log needs.

    @property
    def forked(self) -> bool:
        return self._pid != os.getpid()

    def create(self, log: EpisodeLog) -> int:
        with self._lock:
            if self.forked:
                self._start()
            name = log.id if _FILE_NAME.fullmatch(log.id) else sha256(log.id.encode()).hexdigest()[:32]
            path = self._live / f"{self.writer}.{name}.jsonl"
            number = 1
            while path.exists():  # another episode of the same ID
                number += 1
                path = self._live / f"{self.writer}.{name}-{number}.jsonl"
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            log.path = str(path)
            self._open.add(log)
        return fd

    def finish(self, log: EpisodeLog, source: int, size: int, end: dict[str, Any]) -> None:
        with self._lock:
            self._segment.append(source, size, log.header, end)
            os.unlink(log.path)
            self._open.discard(log)
            self._episodes += 1

    def failure(self, error: OSError) -> RecordError:
        reason = error.strerror or str(error)
        hint = _HINTS.get(error.errno or 0, "record to another folder")
        found = RecordError(f"cannot record to {str(self.path)!r}: {reason.lower()}", hint)
        found.__cause__ = error
        return found

    # The writer.

    def _start(self) -> None:
        """Become a writer of this process."""
        self._pid = os.getpid()
        self.writer = new_writer()
        self._lock_fd = lock_writer(self._live, self.writer)
        self._segment = SegmentWriter(self.path, self.writer, compress=self._compress, durable=self.durable)
        self._started = _now()
        self._describe()

    def leave_to_parent(self) -> None:
        """In a forked process: let go of what belongs to the parent. The next episode begins a new writer."""
        if self._closed or not self.forked:
            return
        self._lock = threading.Lock()
        logs, self._open = self._open, set()
        for log in logs:
            log.close()
        self._segment.close()
        os.close(self._lock_fd)
        self._episodes = 0

    def _note_env(self, header: dict[str, Any]) -> None:
        name = str(header.get("env"))
        if name not in self._envs:
            self._envs[name] = header.get("env_digest")
            try:
                self._describe()
            except OSError as error:
                raise self.failure(error) from None

    def _describe(self, **more: Any) -> None:
        """Write `run.json` anew, with what this writer knows of itself."""
        own = {
            "host": socket.gethostname(),
            "pid": self._pid,
            "command": self._redactor.redact_command(sys.argv),
            "python": platform.python_version(),
            "envweave": self._release,
            "started": self._started,
            "episodes": self._episodes,
            "redacted": self._redactor.count,
            **more,
        }
        with locked(self.path / "run.lock"):
            path = self.path / "run.json"
            found = _read_description(path)
            found.setdefault("v", 1)
            found.setdefault("created", self._started)
            for name, news in (("envs", self._envs), ("writers", {self.writer: own})):
                known = found.get(name)
                found[name] = {**(known if isinstance(known, dict) else {}), **news}
            new = path.with_name(f"run.{self.writer}.new")
            new.write_text(json.dumps(found, indent=2) + "\n")
            new.replace(path)


def _read_description(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _release() -> str:
    try:
        return version("envweave")
    except PackageNotFoundError:
        return "0"


_RECORDERS: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for recorder in list(_RECORDERS):
        recorder.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""A real server for a test: `envweave serve` in a process of its own, gone afterwards whatever happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from envweave.errors import ProviderError

_READY = re.compile(r" at (http://\S+) \(pid (\d+)\)")


@dataclass(frozen=True)
class Served:
    """A server that answers."""

    url: str
    pid: int
    process: subprocess.Popen[str]
    _errors: Path

    @property
    def ws_url(self) -> str:
        """Where its WebSocket is."""
        return self.url.replace("http", "ws", 1) + "/ws"

    def errors(self) -> str:
        """What it has written to stderr so far: its log."""
        return self._errors.read_text(errors="replace")


@contextmanager
def running_server(
    id: str,
    *options: str,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    timeout: float = 60.0,
) -> Iterator[Served]:
    """Run `envweave serve ID OPTIONS` on a free port until the block is left; then it is killed, if it still runs.

    `env` is added to the environment variables. Raises `ProviderError`, with the end of its stderr, if it does not
    come up.
    """
    command = [sys.executable, "-m", "envweave", "serve", id, "--port", "0", *options]
    variables = {**os.environ, **(env or {})}
    with tempfile.NamedTemporaryFile(suffix=".log") as errors:
        process = subprocess.Popen(  # noqa: S603  (our own command)
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables, cwd=cwd
        )
        try:
            url, pid = _ready(process, timeout, Path(errors.name))
            yield Served(url, pid, process, Path(errors.name))
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _ready(process: subprocess.Popen[str], timeout: float, errors: Path) -> tuple[str, int]:
    assert process.stdout is not None
    line = _first_line(process.stdout, timeout)
    found = _READY.search(line)
    if found is None:
        tail = errors.read_text(errors="replace")[-2000:].strip()
        raise ProviderError(f"the server did not come up: {tail or line.strip() or f'silent for {timeout:g} s'}")
    return found[1], int(found[2])


def _first_line(stream: Iterator[str], timeout: float) -> str:
    """The line, or "" at the end of the stream or of the patience."""
    lines: SimpleQueue[str] = SimpleQueue()
    reader = threading.Thread(target=lambda: lines.put(next(stream, "")), daemon=True)
    reader.start()
    try:
        return lines.get(timeout=timeout)
    except Empty:
        return ""

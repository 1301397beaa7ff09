"""Server processes: start, be ready, look into, stop."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
HOST = "127.0.0.1"
MOST_SESSIONS = 4000
START_TIMEOUT = 60.0

_TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """One process that serves on a port of its own. Starts when made; `wait` until it answers; `stop` it."""

    def __init__(self, name: str, command: Callable[[int], list[str]]) -> None:
        self.name = name
        self.port = _free_port()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(command(self.port), stdout=self._log, stderr=subprocess.STDOUT)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def wait(self) -> None:
        """Return when it is healthy. Raises `RuntimeError` with its last words if it does not become so."""
        end = time.monotonic() + START_TIMEOUT
        while time.monotonic() < end and self._process.poll() is None:
            try:
                connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                time.sleep(0.1)
            finally:
                connection.close()
        raise RuntimeError(f"{self.name} did not start:\n{self.last_words()}")

    def last_words(self) -> str:
        self._log.seek(0)
        return self._log.read()[-2000:].decode(errors="replace")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    # What the kernel says of it.

    def cpu_seconds(self) -> float:
        """Of all its threads, also of those that have ended, in steps of 10 ms."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_bytes(self) -> int:
        return self._field("smaps_rollup", "Rss:") * 1024

    def threads(self) -> int:
        return self._field("status", "Threads:")

    def _field(self, file: str, name: str) -> int:
        line = next(line for line in self._proc(file).splitlines() if line.startswith(name))
        return int(line.split()[1])

    def _proc(self, file: str) -> str:
        return Path(f"/proc/{self._process.pid}/{file}").read_text()


@dataclass(frozen=True)
class Pair:
    """The two that are compared."""

    ours: Server
    theirs: Server


@contextmanager
def envweave_server(env: str) -> Iterator[Server]:
    """`envweave serve`, with room for all sessions and otherwise as it comes."""
    with _ready(Server("envweave", lambda port: _envweave(env, port))) as server:
        yield server


@contextmanager
def pair() -> Iterator[Pair]:
    """Both echo servers."""
    with (
        _stopped(Server("OpenEnv", _openenv)) as theirs,
        _stopped(Server("envweave", lambda port: _envweave("echo", port))) as ours,
    ):
        ours.wait()
        theirs.wait()
        yield Pair(ours, theirs)


@contextmanager
def _ready(server: Server) -> Iterator[Server]:
    with _stopped(server):
        server.wait()
        yield server


@contextmanager
def _stopped(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.stop()


def _envweave(env: str, port: int) -> list[str]:
    options = ["--port", str(port), "--max-sessions", str(MOST_SESSIONS), "--log-level", "warning"]
    return [sys.executable, "-m", "envweave", "serve", env, *options]


def _openenv(port: int) -> list[str]:
    """As its documentation has it, without the line that uvicorn logs for each request."""
    options = ["--port", str(port), "--log-level", "warning", "--no-access-log", "--backlog", "4096"]
    return [sys.executable, "-m", "uvicorn", "openenv_echo:app", "--app-dir", str(PEERS), *options]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])

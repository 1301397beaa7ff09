"""Server processes: start, wait, observe, stop."""

from __future__ import annotations

import http.client
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
MAX_SESSIONS = 4000
START_TIMEOUT = 60.0


class ServerProcess:
    """A server on a free port. It starts when the object is made; call `wait` before use, and `stop` at the end."""

    def __init__(self, name: str, command: Callable[[int], list[str]]) -> None:
        self.name = name
        self.port = _free_port()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(command(self.port), stdout=self._log, stderr=subprocess.STDOUT)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def wait(self) -> None:
        """Return when it is healthy. Raises `RuntimeError` with the end of its log if it does not start."""
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
        raise RuntimeError(f"{self.name} did not start:\n{self.log_tail()}")

    def log_tail(self) -> str:
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

    # Measured by the kernel.

    def cpu_seconds(self) -> float:
        """Of all its threads, including those that have ended."""
        return time.clock_gettime((~self._process.pid << 3) | 2)  # Linux: the CPU clock of another process

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
class EchoServers:
    """The two that are compared."""

    ours: ServerProcess
    theirs: ServerProcess


@contextmanager
def envweave_server(env: str) -> Iterator[ServerProcess]:
    """`envweave serve`, with room for all sessions and otherwise default settings."""
    with _ready(ServerProcess("envweave", lambda port: _envweave(env, port))) as server:
        yield server


@contextmanager
def echo_servers() -> Iterator[EchoServers]:
    """Start both and stop them afterwards."""
    with (
        _stopped(ServerProcess("OpenEnv", _openenv)) as theirs,
        _stopped(ServerProcess("envweave", lambda port: _envweave("echo", port))) as ours,
    ):
        ours.wait()
        theirs.wait()
        yield EchoServers(ours, theirs)


@contextmanager
def _ready(server: ServerProcess) -> Iterator[ServerProcess]:
    with _stopped(server):
        server.wait()
        yield server


@contextmanager
def _stopped(server: ServerProcess) -> Iterator[ServerProcess]:
    try:
        yield server
    finally:
        server.stop()


def _envweave(env: str, port: int) -> list[str]:
    options = ["--port", str(port), "--max-sessions", str(MAX_SESSIONS), "--log-level", "warning"]
    return [sys.executable, "-m", "envweave", "serve", env, *options]


def _openenv(port: int) -> list[str]:
    """As in its documentation, but without the line that uvicorn logs for each request."""
    options = ["--port", str(port), "--log-level", "warning", "--no-access-log", "--backlog", "4096"]
    return [sys.executable, "-m", "uvicorn", "openenv_echo:app", "--app-dir", str(PEERS), *options]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])

"""A server in a process on this machine: `envweave serve`, or any command that listens on a given port."""

from __future__ import annotations

import os
import socket
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from envweave.errors import ProviderError, UsageError
from envweave.providers.base import READY_TIMEOUT, Provider
from envweave.providers.process import READY, Process

HOST = "127.0.0.1"
_PORT = "{port}"
_ATTEMPTS = 5
"""Starts on ports that another process took first."""


class SubprocessProvider(Provider):
    """`envweave serve ID` in its own process, on a port that the system chooses.

    `options` go to `envweave serve`. `command` replaces it: `{port}` in it is replaced by a free port; without
    `{port}`, the command must report its URL as `envweave serve` does.
    """

    kind: ClassVar[str] = "process"

    def __init__(
        self,
        id: str = "",
        *,
        options: Sequence[str] = (),
        command: Sequence[str] | None = None,
        env_vars: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        start_timeout: float = 60.0,
        ready_timeout: float = READY_TIMEOUT,
        stop_timeout: float = 5.0,
    ) -> None:
        if isinstance(command, str):
            raise UsageError(f"command is {command!r}", "use a list with a string for each word")
        self.id = id
        self._options = tuple(options)
        self._given_command = None if command is None else tuple(map(str, command))
        self._env_vars = dict(env_vars or {})
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._start_timeout = start_timeout
        self.ready_timeout = ready_timeout
        self._stop_timeout = stop_timeout
        self._process: Process | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None

    def start(self, id: str = "", **options: Any) -> str:
        if self._process is not None:
            raise UsageError(f"{self.id or 'the process'} has started already", "stop() it first")
        self.id = id or self.id
        self._env_vars |= options.pop("env_vars", None) or {}
        if options:
            raise UsageError(f"start takes no {next(iter(options))!r}", "give it to the provider")
        command = self._command()
        try:
            chooses_port = any(_PORT in word for word in command)
            self.url = self._start_on_free_port(command) if chooses_port else self._start_and_read_url(command)
        except BaseException:
            self.stop()
            raise
        return self.url

    def _command(self) -> Sequence[str]:
        if self._given_command is not None:
            return self._given_command
        if not self.id:
            raise UsageError("nothing to serve is named", "e.g. 'echo', or pkg://my_module:MyEnv")
        return [sys.executable, "-m", "envweave", "serve", self.id, "--port", "0", *self._options]

    def _start_and_read_url(self, command: Sequence[str]) -> str:
        """Start, and return the URL that the process reports."""
        process = self._start_process(command)
        self._wait(lambda: "" if READY.search(process.log()) else "it has not reported its URL")
        match = READY.search(process.log())
        return match[1] if match else ""

    def _start_on_free_port(self, command: Sequence[str]) -> str:
        """Start on a port that is free now; on another one if that is taken first."""
        for attempt in range(_ATTEMPTS):
            port = _free_port()
            url = f"http://{HOST}:{port}"
            self._start_process([word.replace(_PORT, str(port)) for word in command], url)
            try:
                self._wait(partial(_port_problem, port))
                self.check()
                return url
            except ProviderError as error:
                if attempt == _ATTEMPTS - 1 or "address already in use" not in error.message.lower():
                    raise
                self.stop()
        raise AssertionError("not reached")

    def _wait(self, problem: Callable[[], str]) -> None:
        def too_late(found: str, seconds: float) -> ProviderError:
            return ProviderError(f"{self._subject} did not start in {seconds:g} s: {found}{self.formatted_log()}")

        self._wait_until(problem, self._start_timeout, too_late)

    def _start_process(self, command: Sequence[str], url: str = "") -> Process:
        self._process = process = Process(command, self._subject, self._variables(), self._cwd, url)
        self._finalizer = weakref.finalize(self, process.end, self._stop_timeout)
        return process

    def _variables(self) -> dict[str, str]:
        return {**os.environ, **{name: str(value) for name, value in self._env_vars.items()}}

    @property
    def _subject(self) -> str:
        return self.id or " ".join(self._given_command or ())

    @property
    def env_vars(self) -> Mapping[str, str]:
        return self._env_vars

    @property
    def process(self) -> Process:
        """The process. Raises `ProviderError` if there is none."""
        if self._process is None:
            raise ProviderError("there is no process", "call start() first")
        return self._process

    def check(self) -> None:
        code = self.process.exit_code
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"has ended with exit code {code}"
            raise ProviderError(f"the server of {self._subject} {how}{self.formatted_log()}")

    def logs(self, tail: int | None = None) -> str:
        return "" if self._process is None else self._process.log(tail)

    def stop(self) -> None:
        finalizer, self._finalizer = self._finalizer, None
        self._process, self.url = None, ""
        if finalizer is not None:
            finalizer()


def _port_problem(port: int) -> str:
    """Return an empty string if a process listens on the port, else a reason."""
    try:
        socket.create_connection((HOST, port), timeout=1.0).close()
    except OSError as error:
        return f"nothing listens on port {port}: {error.strerror or error}"
    return ""


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])

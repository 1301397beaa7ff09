"""A server in a process of this machine: `envweave serve`, or any command that listens where it is told to."""

from __future__ import annotations

import os
import socket
import sys
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from envweave.errors import ProviderError, UsageError
from envweave.providers.base import LAST_LINES, READY_TIMEOUT, Provider, shown, wait_until
from envweave.providers.process import READY, Process

HOST = "127.0.0.1"
_PORT = "{port}"
_ATTEMPTS = 5
"""Starts on a port that somebody else took just before us."""


class SubprocessProvider(Provider):
    """`envweave serve ID` in a process of its own, on a port that the system chooses.

    `options` go to `envweave serve`. With `command` it runs that instead; `{port}` in it is replaced by a free port,
    and without it the command must say where it listens as `envweave serve` does.
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
        self._own_command = None if command is None else tuple(map(str, command))
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
            self.url = self._on_free_port(command) if any(_PORT in word for word in command) else self._told(command)
        except BaseException:
            self.stop()
            raise
        return self.url

    def _command(self) -> Sequence[str]:
        if self._own_command is not None:
            return self._own_command
        if not self.id:
            raise UsageError("nothing to serve is named", "e.g. 'echo', or pkg://my_module:MyEnv")
        return [sys.executable, "-m", "envweave", "serve", self.id, "--port", "0", *self._options]

    def _told(self, command: Sequence[str]) -> str:
        """Begin, and hear where it listens."""
        process = self._begin(command)
        wait_until(
            lambda: "" if READY.search(process.log()) else "it has not said where it listens",
            self._start_timeout,
            self._go_on,
            self._too_late,
        )
        match = READY.search(process.log())
        return match[1] if match else ""

    def _on_free_port(self, command: Sequence[str]) -> str:
        """Begin on a port that is free now; where somebody else takes it first, on another."""
        for attempt in range(_ATTEMPTS):
            port = _free_port()
            url = f"http://{HOST}:{port}"
            self._begin([word.replace(_PORT, str(port)) for word in command], url)
            try:
                wait_until(partial(_closed, port), self._start_timeout, self._go_on, self._too_late)
                self.check()
                return url
            except ProviderError as error:
                if attempt == _ATTEMPTS - 1 or "address already in use" not in error.message.lower():
                    raise
                self.stop()
        raise AssertionError("not reached")

    def _too_late(self, state: str, seconds: float) -> ProviderError:
        return ProviderError(f"{self._what} did not start in {seconds:g} s: {state}{self.last_words()}")

    def _begin(self, command: Sequence[str], url: str = "") -> Process:
        self._process = process = Process(command, self._what, self._variables(), self._cwd, url)
        self._finalizer = weakref.finalize(self, process.end, self._stop_timeout)
        return process

    def _variables(self) -> dict[str, str]:
        return {**os.environ, **{name: str(value) for name, value in self._env_vars.items()}}

    @property
    def _what(self) -> str:
        return self.id or " ".join(self._own_command or ())

    @property
    def env_vars(self) -> Mapping[str, str]:
        return self._env_vars

    @property
    def process(self) -> Process:
        """What runs. Raises `ProviderError` where there is nothing."""
        if self._process is None:
            raise ProviderError("there is no process", "call start() first")
        return self._process

    def check(self) -> None:
        code = self.process.exit_code
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"has ended with exit code {code}"
            raise ProviderError(f"the server of {self._what} {how}{shown(self.process.log(LAST_LINES))}")

    def logs(self, tail: int | None = None) -> str:
        return "" if self._process is None else self._process.log(tail)

    def stop(self) -> None:
        finalizer, self._finalizer = self._finalizer, None
        self._process, self.url = None, ""
        if finalizer is not None:
            finalizer()


def _closed(port: int) -> str:
    """Empty if somebody listens on the port."""
    try:
        socket.create_connection((HOST, port), timeout=1.0).close()
    except OSError as error:
        return f"nobody listens on port {port}: {error.strerror or error}"
    return ""


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])

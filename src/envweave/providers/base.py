"""The contract of a provider: it starts one server, reports its URL, and stops it."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from envweave.core import process_identity
from envweave.errors import ClosedError, ProviderError, UsageError

HEALTH = "/health"
READY_TIMEOUT = 60.0
LOG_TAIL = 20
"""Lines of a log that an error shows."""
TOKEN = "ENVWEAVE_TOKEN"  # noqa: S105  (the name of the variable, not a secret)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.05
"""Seconds between two health checks, which are cheap; each pause is 1.5 times as long as the one before."""
_CHECK_PAUSE = 0.25
"""Seconds between two calls of `check`; a Docker daemon needs about 10 ms for each."""


class Provider(ABC):
    """One server at a time. `start` starts it, `stop` stops it and removes its resources; then it can start again.

    Resources carry labels, so that `envweave ps` finds them and `envweave gc` removes them once the process that
    started them is gone. A provider that is dropped, or whose process exits, stops its server.
    """

    kind: ClassVar[str]
    """Where it runs: `docker`, `process`, `kubernetes`, …"""
    url: str = ""
    """Where the server is; empty before `start` and after `stop`."""
    ready_timeout: float = READY_TIMEOUT
    """Seconds until a client gives up waiting for the server."""
    cancelled: bool = False
    """Set by another thread to make `wait_for_ready` raise `ClosedError`."""

    @abstractmethod
    def start(self, *args: Any, **options: Any) -> str:
        """Start, and return the URL of the server, which may not answer yet: `wait_for_ready` waits for it.

        The arguments replace those of the constructor from now on. Raises `ProviderError` with the cause and leaves
        nothing behind. Raises `UsageError` if it has started already.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise `ProviderError`, with the cause and the last lines of the log, if the server does not run."""

    @abstractmethod
    def logs(self, tail: int | None = None) -> str:
        """Return the output of the server, or its last `tail` lines; empty if there is no server."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server and remove its resources. Does nothing before `start` and after `stop`."""

    def shortcut(self, url: str) -> str:
        """Return the path of a Unix socket of the server at `url`; empty if there is none."""
        return ""

    @property
    def env_vars(self) -> Mapping[str, str]:
        """Environment variables of the server."""
        return {}

    @property
    def servers(self) -> int:
        """Number of servers that a start gives, each with its own URL."""
        return 1

    @property
    def urls(self) -> tuple[str, ...]:
        """One URL per server. Servers share nothing; a session belongs to one of them."""
        return (self.url,) if self.url else ()

    def wait_for_ready(self, timeout: float | str = READY_TIMEOUT, timeout_s: float | None = None) -> None:
        """Return when the server is healthy. Raises `ProviderError`, with the log, if it ends or takes too long.

        EnvTorch's form, `wait_for_ready(base_url, timeout_s)`, works too.
        """
        if not self.url:
            raise UsageError("there is no server to wait for", "call start() first")
        limit = timeout_s if timeout_s is not None else READY_TIMEOUT if isinstance(timeout, str) else timeout
        self._wait_until(self._health, limit, self._unhealthy_error)

    def _wait_until(
        self, problem: Callable[[], str], seconds: float, failure: Callable[[str, float], ProviderError]
    ) -> None:
        """Wait until `problem` returns an empty string. Raises what `check` raises, or `failure` after that time."""
        end = time.monotonic() + seconds
        pause, next_check = _FIRST_PAUSE, 0.0
        while found := problem():
            too_late = time.monotonic() + pause > end
            if self.cancelled:
                raise ClosedError("the server was given up while it started")
            if too_late or time.monotonic() >= next_check:
                self.check()
                next_check = time.monotonic() + _CHECK_PAUSE
            if too_late:
                raise failure(found, seconds)
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _health(self) -> str:
        """Return an empty string if all servers are healthy, else a reason."""
        return next((problem for problem in map(health, self.urls) if problem), "")

    def _unhealthy_error(self, problem: str, seconds: float) -> ProviderError:
        return ProviderError(
            f"no healthy server at {self.url} within {seconds:g} s: {problem}{self.formatted_log()}",
            f"does it listen on all addresses and answer {HEALTH}? a longer timeout may help on a busy machine",
        )

    def formatted_log(self) -> str:
        """Return the end of the log, as the end of a message."""
        return format_log(self.logs(LOG_TAIL))

    def start_container(self, *args: Any, **options: Any) -> str:
        """`start`, under EnvTorch's name."""
        return self.start(*args, **options)

    def stop_container(self) -> None:
        """`stop`, under EnvTorch's name."""
        self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextmanager
def running(provider: Provider, *, timeout: float = READY_TIMEOUT) -> Iterator[str]:
    """The URL of a healthy server, which is stopped at the end of the block."""
    try:
        url = provider.start()
        provider.wait_for_ready(timeout)
        yield url
    finally:
        provider.stop()


def single_client_variables(env_vars: Mapping[str, str] | None, token: str | None = None) -> dict[str, str]:
    """Return the variables of a server whose only client is the one that starts it and knows its token."""
    allowed = {"ENVWEAVE_ALLOW_ARGUMENTS": "1", "ENVWEAVE_ALLOW_BRANCHING": "1"}
    return {**allowed, TOKEN: token or secrets.token_urlsafe(24), **(env_vars or {})}


def labels() -> dict[str, str]:
    """Return the labels of every resource, valid for Docker and for Kubernetes."""
    return {
        "envweave.kind": "server",
        "envweave.owner": process_identity.own_identity(),
        "envweave.world": process_identity.machine_id(),
    }


def is_stray(marks: Mapping[str, str]) -> bool:
    """Whether labels name an owner that no longer runs. False for owners on other machines."""
    here = marks.get("envweave.world") == process_identity.machine_id()
    return here and process_identity.is_dead(marks.get("envweave.owner", "0"))


def health(url: str, timeout: float = 5.0) -> str:
    """Return an empty string if the server at `url` is healthy, else a reason."""
    import http.client  # slow to import, and not needed for clients of a URL

    parts = urlsplit(url)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request("GET", parts.path.rstrip("/") + HEALTH)
        status = connection.getresponse().status
        return "" if status == http.client.OK else f"it answers with HTTP {status}"
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()


def format_log(log: str) -> str:
    """Return lines of a log as the end of a message."""
    lines = log.strip()
    return f"\n{lines}" if lines else " (it has written nothing)"

"""The contract of a provider: start one server somewhere, say where it is, and end it, whatever happened in between."""

from __future__ import annotations

import os
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
LAST_LINES = 20
"""How much of a log an error shows."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.05
"""Seconds between two questions whether a server is healthy, which are cheap: 1.5 times as long each time."""
CHECK_PAUSE = 0.25
"""Seconds between two questions whether it runs at all, which take a Docker daemon some 10 ms each."""


class Provider(ABC):
    """One server at a time. `start` begins it, `stop` ends it and all that belongs to it; then it may start again.

    What was started carries labels, so that `envweave ps` finds it and `envweave gc` removes it once its owner, the
    process that started it, is gone. A provider that is dropped or whose process exits stops what it has started.
    """

    kind: ClassVar[str]
    """Where it runs: `docker`, `process`, `kubernetes`, …"""
    url: str = ""
    """Where the server is; empty before `start` and after `stop`."""
    ready_timeout: float = READY_TIMEOUT
    """Seconds that clients who start it give it to be ready."""
    wanted: bool = True
    """Whoever waits for a server that nobody wants any more is told so, by `ClosedError`."""

    @abstractmethod
    def start(self, *args: Any, **options: Any) -> str:
        """Begin, and return the URL of a server that will answer there soon: `wait_for_ready` says when.

        Positional and keyword arguments replace those that the provider was made with, from now on. Raises
        `ProviderError` with the cause; then nothing is left behind. Raises `UsageError` if it has started already.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise `ProviderError`, with the cause and the last lines of its log, if what was started does not run."""

    @abstractmethod
    def logs(self, tail: int | None = None) -> str:
        """What the server has written so far, or the last `tail` lines of it; empty if there is none to ask."""

    @abstractmethod
    def stop(self) -> None:
        """End it and remove what belongs to it. Harmless before `start`, after a start that failed, and twice."""

    def shortcut(self, url: str) -> str:
        """The path of a Unix socket that leads to the server at `url`, past the network; empty if there is none."""
        return ""

    @property
    def env_vars(self) -> Mapping[str, str]:
        """The variables that a server is given."""
        return {}

    @property
    def servers(self) -> int:
        """How many servers a start gives, each with a URL of its own."""
        return 1

    @property
    def urls(self) -> tuple[str, ...]:
        """One for each server, where a provider runs several that share nothing; a session belongs to one of them."""
        return (self.url,) if self.url else ()

    def wait_for_ready(self, timeout: float | str = READY_TIMEOUT, timeout_s: float | None = None) -> None:
        """Return when the server answers. Raises `ProviderError`, with its last lines, if it ends or takes too long.

        EnvTorch's form, `wait_for_ready(base_url, timeout_s)`, is understood too.
        """
        limit = timeout_s if timeout_s is not None else READY_TIMEOUT if isinstance(timeout, str) else timeout
        if not self.url:
            raise UsageError("there is no server to wait for", "call start() first")
        wait_until(self._healthy, limit, self._go_on, self._never_healthy)

    def _go_on(self) -> None:
        """Raise if it is in vain to wait."""
        if not self.wanted:
            raise ClosedError("the server was given up while it started")
        self.check()

    def _healthy(self) -> str:
        """Empty if all its servers answer, else what one of them did instead."""
        return next((state for state in map(health, self.urls) if state), "")

    def _never_healthy(self, state: str, seconds: float) -> ProviderError:
        return ProviderError(
            f"no healthy server at {self.url} within {seconds:g} s: {state}{self.last_words()}",
            f"does it listen on all addresses and answer {HEALTH}? a longer timeout may help on a busy machine",
        )

    def last_words(self) -> str:
        """The end of its log, for the end of a message."""
        return shown(self.logs(LAST_LINES))

    # The names that EnvTorch gave them.

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


TOKEN = "ENVWEAVE_TOKEN"  # noqa: S105  (the name of the variable, not a secret)


def alone(env_vars: Mapping[str, str] | None, token: str | None = None) -> dict[str, str]:
    """The variables of a server that has no clients but the one who starts it, who knows the token among them."""
    allowed = {"ENVWEAVE_ALLOW_ARGUMENTS": "1", "ENVWEAVE_ALLOW_BRANCHING": "1"}
    own = {**allowed, TOKEN: token or secrets.token_urlsafe(24)}
    return {**own, **(env_vars or {})}


@contextmanager
def running(provider: Provider, *, timeout: float = READY_TIMEOUT) -> Iterator[str]:
    """The URL of a server that answers; it is gone when the block is left, whatever happens."""
    try:
        url = provider.start()
        provider.wait_for_ready(timeout)
        yield url
    finally:
        provider.stop()


def labels() -> dict[str, str]:
    """What everything that is started carries; the form of names and values is what Docker and Kubernetes take."""
    return {
        "envweave.kind": "server",
        "envweave.owner": process_identity.own_identity(),
        "envweave.world": process_identity.machine_id(),
    }


def is_stray(found: Mapping[str, str]) -> bool:
    """By its labels: the process that started it is gone. Of an owner on another machine nobody can tell."""
    return found.get("envweave.world") == process_identity.machine_id() and process_identity.is_dead(
        found.get("envweave.owner", "0")
    )


def health(url: str, timeout: float = 5.0) -> str:
    """Empty if the server at `url` says that it is healthy, else what it did instead."""
    import http.client  # slow to load, and clients of a URL do without

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


def wait_until(
    state: Callable[[], str],
    timeout: float,
    check: Callable[[], None],
    failure: Callable[[str, float], ProviderError],
) -> None:
    """Ask until `state` is empty. `check` raises if it is in vain; `failure` says that it takes too long."""
    end = time.monotonic() + timeout
    pause, next_check = FIRST_PAUSE, 0.0
    while found := state():
        too_late = time.monotonic() + pause > end
        if too_late or time.monotonic() >= next_check:
            check()
            next_check = time.monotonic() + CHECK_PAUSE
        if too_late:
            raise failure(found, timeout)
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)


def shown(log: str) -> str:
    """Lines of a log as the end of a message."""
    lines = log.strip()
    return f"\n{lines}" if lines else " (it has written nothing)"


def in_owner(pid: int) -> bool:
    """Not in a forked copy of the process that started something: what it inherited is not its own to end."""
    return os.getpid() == pid

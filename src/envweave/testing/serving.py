"""A real server for a test: `envweave serve` in a process of its own, gone afterwards whatever happens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from envweave.providers.base import running
from envweave.providers.subprocess import SubprocessProvider


@dataclass(frozen=True)
class Served:
    """A server that answers."""

    url: str
    process: subprocess.Popen[bytes]
    _provider: SubprocessProvider

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ws_url(self) -> str:
        """Where its WebSocket is."""
        return self.url.replace("http", "ws", 1) + "/ws"

    def errors(self) -> str:
        """Its log: what it has written so far, without the lines that say where it is."""
        lines = self._provider.logs().splitlines(keepends=True)
        return "".join(
            line for line in lines if f" at {self.url} (pid " not in line and f" at {self.url}/web" not in line
        )


@contextmanager
def running_server(
    id: str,
    *options: str,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    timeout: float = 60.0,
) -> Iterator[Served]:
    """Run `envweave serve ID OPTIONS` on a free port until the block is left; then it is killed, if it still runs.

    `env` is added to the environment variables. Raises `ProviderError`, with the end of its log, if it does not come
    up.
    """
    provider = SubprocessProvider(id, options=options, env_vars=env, cwd=cwd, start_timeout=timeout, stop_timeout=0.0)
    with running(provider, timeout=timeout) as url:
        yield Served(url, provider.process.popen, provider)

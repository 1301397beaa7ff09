"""Sandboxes that ask for the same walls share what puts them up: one fork-server serves them all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from envweave.sandbox.base import Boundary
from envweave.sandbox.local import LocalBoundary
from envweave.sandbox.process import ProcessBoundary

_LOCK = threading.Lock()
_SHARED: dict[tuple[Any, ...], Lease] = {}


class Lease:
    """A share in a boundary, which ends with the last of them."""

    def __init__(self, key: tuple[Any, ...], boundary: Boundary) -> None:
        self.boundary = boundary
        self._key = key
        self.holders = 0

    def release(self) -> None:
        with _LOCK:
            self.holders -= 1
            if self.holders:
                return
            if _SHARED.get(self._key) is self:
                del _SHARED[self._key]
        self.boundary.close()


def boundary_for(backend: str, options: dict[str, Any]) -> Lease:
    """The boundary that others use already, if it lives, or a new one."""
    where = os.environ.get("DOCKER_HOST") if backend == "docker" else None
    key = (os.getpid(), backend, where, *sorted((name, value) for name, value in options.items() if value is not None))
    with _LOCK:
        lease = _SHARED.get(key)
        if lease is None or not lease.boundary.alive:
            lease = _SHARED[key] = Lease(key, _maker(backend)(**options))
        lease.holders += 1
        return lease


def _maker(backend: str) -> Callable[..., Boundary]:
    if backend == "docker":
        from envweave.sandbox.docker import DockerBoundary  # its package is an extra

        return DockerBoundary
    return LocalBoundary if backend == "local" else ProcessBoundary

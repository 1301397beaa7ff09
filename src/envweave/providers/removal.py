"""The end of a container: friendly first, by force, and later where its daemon is away."""

from __future__ import annotations

import atexit
from contextlib import suppress
from typing import Any

from envweave.errors import ProviderError
from envweave.providers import door
from envweave.providers.base import in_owner
from envweave.providers.container import ContainerOptions
from envweave.providers.daemon import FAILURES, APIError, NotFound, connected, reason

_OWED: set[tuple[str, str | None]] = set()
"""Containers by name and daemon that were to be removed when it did not answer."""


def remove(name: str, folder: str, chosen: ContainerOptions, owner: int) -> None:
    """End a container, friendly first. Where the daemon does not answer, it is done with our next start, or at exit."""
    if not in_owner(owner):
        return
    try:
        with connected(chosen.docker_host) as client:
            with suppress(*FAILURES):
                client.api.stop(name, timeout=chosen.stop_timeout)
            force_out(client, name)
    except ProviderError:
        _OWED.add((name, chosen.docker_host))
    door.remove(folder)


def make_up(client: Any, host: str | None) -> None:
    """Remove what should be gone already, now that the daemon answers again."""
    for owed in [each for each in _OWED if each[1] == host]:
        with suppress(ProviderError):
            force_out(client, owed[0])
            _OWED.discard(owed)


@atexit.register
def _make_up_for_all() -> None:
    for host in {host for _, host in _OWED}:
        with suppress(ProviderError), connected(host) as client:
            make_up(client, host)


def force_out(client: Any, name: str) -> None:
    try:
        client.api.remove_container(name, v=True, force=True)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != 409:  # somebody else is at it
            raise ProviderError(f"the container {name} cannot be removed: {reason(error)}") from error
    except FAILURES as error:
        raise ProviderError(f"the container {name} cannot be removed: {reason(error)}") from error

"""The fixtures of the transport suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from envweave.registry.make import make
from envweave.testing.suites.base import Suite, missing
from envweave.testing.suites.record import Recorder, compared, played

Connect: TypeAlias = Callable[..., Any]
"""Takes an ID and the options of a handle: `autoreset`, `max_episode_steps`, `deadline`. Returns a handle."""

Same: TypeAlias = Callable[..., list[dict[str, Any]]]
"""Takes an ID, a script and the options of a handle. Returns what was said, as data."""

SCRIPTED = "pkg://envweave.testing.suites.scripted:ScriptedEnv"
AGENTS = "pkg://envweave.testing.suites.scripted:ScriptedAgentsEnv"


class TransportTests(Suite):
    """The environments run on this machine, branching is allowed, and no client is limited by a deadline."""

    @pytest.fixture
    def connect(self, request: pytest.FixtureRequest) -> Connect:
        """To be defined: a function that returns a handle for an environment at the other end of the transport.

        The IDs are those of envweave's own environments and of the form `pkg://module:Class`.
        """
        missing(request, "return a function of an ID and the options of a handle from it")

    @pytest.fixture
    def same(self, connect: Connect) -> Same:
        """Play a script in this process and over the transport, and compare what was said."""

        def compare(id: str, script: Callable[[Recorder], Any], **options: Any) -> list[dict[str, Any]]:
            expected = played(lambda: make(id, **options), script)
            return compared(played(lambda: connect(id, **options), script), expected)

        return compare

"""Waiting for what others do, without a guess how long it takes."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from envweave.errors import ProviderError

PATIENCE = 90.0
"""Seconds for what takes two on a machine that has nothing else to do."""

T = TypeVar("T")


def until(done: Callable[[], T], seconds: float = PATIENCE) -> T:
    """What `done` gives, once it gives something."""
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, f"it takes longer than {seconds:g} s"
        time.sleep(0.1)
    return found


def found_by(provider: Any) -> str:
    """What the `check` of a provider says, once it finds something wrong."""

    def trouble() -> str:
        try:
            provider.check()
        except ProviderError as error:
            return str(error)
        return ""

    return until(trouble)

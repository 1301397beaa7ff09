"""What to do about a thing that this machine does not have."""

import os
from typing import NoReturn

import pytest


def need(name: str, reason: str) -> NoReturn:
    """Skips the test, or fails it where `ENVWEAVE_REQUIRE` names what is missing."""
    if name in os.environ.get("ENVWEAVE_REQUIRE", "").split():
        pytest.fail(f"ENVWEAVE_REQUIRE names `{name}`, but {reason}", pytrace=False)
    pytest.skip(reason)

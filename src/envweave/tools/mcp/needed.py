"""Whether the `mcp` package is here, and new enough."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from envweave.errors import UnavailableError

OLDEST = (2, 3)
"""The first that is known to speak both 2025-11-25 and 2026-07-28, in both directions."""


def need_mcp() -> None:
    """Raises `UnavailableError`, with the command that installs it, where it is missing or too old."""
    wanted = ".".join(map(str, OLDEST))
    try:
        found = version("mcp")
    except PackageNotFoundError:
        raise UnavailableError("'mcp' is not installed", "pip install 'envweave[mcp]'") from None
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise UnavailableError(f"mcp {found} is installed, and {wanted} is needed", "pip install 'envweave[mcp]'")

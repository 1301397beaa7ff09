"""The version of the `mcp` package that is needed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from envweave.errors import UnavailableError

OLDEST = "2.3"
"""The first version that supports both 2025-11-25 and 2026-07-28, as client and as server."""


def require_mcp() -> None:
    """Raise `UnavailableError`, with the command that installs it, if the package is missing or too old."""
    hint = "pip install 'envweave[mcp]'"
    try:
        found = version("mcp")
    except PackageNotFoundError:
        raise UnavailableError("'mcp' is not installed", hint) from None
    if Version(found) < Version(OLDEST):
        raise UnavailableError(f"mcp {found} is installed, and {OLDEST} is needed", hint)

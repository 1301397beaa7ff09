"""For tests: `check_env` checks an environment against the contract, `running_server` serves one, `scripted_model` is a
language model, and `suites` has the conformance suites for pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envweave.core.lookup import load

if TYPE_CHECKING:
    from envweave.testing.check import check_env
    from envweave.testing.models import scripted_model
    from envweave.testing.report import Finding, Report
    from envweave.testing.serving import running_server

__all__ = ["Finding", "Report", "check_env", "running_server", "scripted_model"]

_MODULES = {
    "Finding": "report",
    "Report": "report",
    "check_env": "check",
    "running_server": "serving",
    "scripted_model": "models",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:  # loaded when used: pytest imports this package whenever it runs
        return load(f"{__name__}.{_MODULES[name]}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

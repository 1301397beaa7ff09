"""Proof that ships: `check_env` holds any environment against the contract, `running_server` serves one for a test,
`scripted_model` is a language model for one.
"""

from typing import TYPE_CHECKING, Any

from envweave.testing.check import check_env
from envweave.testing.report import Finding, Report
from envweave.testing.serving import running_server

if TYPE_CHECKING:
    from envweave.testing.models import scripted_model

__all__ = ["Finding", "Report", "check_env", "running_server", "scripted_model"]


def __getattr__(name: str) -> Any:
    if name == "scripted_model":  # loads a web server, which `envweave check` can do without
        from envweave.testing.models import scripted_model

        return scripted_model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

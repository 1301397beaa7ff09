"""Conformance suites: test classes to subclass, one for each thing that has several implementations.

    from envweave.testing.suites import EnvironmentSuite

    class TestMyEnv(EnvironmentSuite):
        env = "my-env"

A suite is imported when its name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envweave.core.lookup import load

if TYPE_CHECKING:
    from envweave.testing.suites.environment import EnvironmentSuite
    from envweave.testing.suites.provider import ProviderSuite
    from envweave.testing.suites.sandbox import BoundarySuite, SandboxSuite
    from envweave.testing.suites.transport import TransportSuite
    from envweave.testing.suites.vector import ExecutorSuite, VectorSuite

__all__ = [
    "BoundarySuite",
    "EnvironmentSuite",
    "ExecutorSuite",
    "ProviderSuite",
    "SandboxSuite",
    "TransportSuite",
    "VectorSuite",
]

_MODULES = {
    "BoundarySuite": "sandbox",
    "EnvironmentSuite": "environment",
    "ExecutorSuite": "vector",
    "ProviderSuite": "provider",
    "SandboxSuite": "sandbox",
    "TransportSuite": "transport",
    "VectorSuite": "vector",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return load(f"{__name__}.{_MODULES[name]}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

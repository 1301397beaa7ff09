"""What a sandbox must do. `BoundarySuite` is the part that depends on where code runs; `SandboxSuite` is all of it."""

from envweave.testing.suites.sandbox.arguments import ArgumentTests
from envweave.testing.suites.sandbox.asynchronous import AsyncTests
from envweave.testing.suites.sandbox.files import FileTests
from envweave.testing.suites.sandbox.forks import ForkTests
from envweave.testing.suites.sandbox.inspection import InspectionTests
from envweave.testing.suites.sandbox.lifetime import LifetimeTests, PoolTests
from envweave.testing.suites.sandbox.limits import LimitTests, OutputTests
from envweave.testing.suites.sandbox.runs import KillTests, RunTests, TimeoutTests
from envweave.testing.suites.sandbox.sessions import DescriptionTests, LongTextTests, SessionTests
from envweave.testing.suites.sandbox.tools import ToolResultTests, ToolTests
from envweave.testing.suites.sandbox.values import ValueTests, VariableTests

__all__ = ["BoundarySuite", "SandboxSuite"]


class BoundarySuite(
    RunTests,
    TimeoutTests,
    KillTests,
    FileTests,
    ToolTests,
    LimitTests,
    InspectionTests,
    LongTextTests,
    LifetimeTests,
    PoolTests,
    AsyncTests,
):
    """For another place in which the sessions of `Sandbox` run: another image, another kernel, another boundary."""


class SandboxSuite(
    BoundarySuite,
    ForkTests,
    ValueTests,
    VariableTests,
    ToolResultTests,
    OutputTests,
    SessionTests,
    DescriptionTests,
    ArgumentTests,
):
    """For a sandbox of your own, with the interface of `envweave.sandbox.Sandbox`."""

"""What a transport must do: whatever is said in this process is said over it, to the byte after JSON."""

from envweave.testing.suites.transport.agents import AgentTests
from envweave.testing.suites.transport.data import DataTests, HandleTests
from envweave.testing.suites.transport.episodes import EpisodeTests, FailureTests, RefusalTests
from envweave.testing.suites.transport.requests import BranchTests, RequestTests
from envweave.testing.suites.transport.tasks import TaskTests

__all__ = ["TransportSuite"]


class TransportSuite(
    EpisodeTests, RefusalTests, FailureTests, RequestTests, BranchTests, TaskTests, AgentTests, DataTests, HandleTests
):
    """For a way to reach an environment that runs elsewhere, such as a client and its server."""

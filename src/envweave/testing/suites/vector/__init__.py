"""What a vector must do. `ExecutorSuite` is the part that depends on where rows run; `VectorSuite` is all of it."""

from envweave.testing.suites.vector.arguments import VectorArgumentTests
from envweave.testing.suites.vector.calls import VectorCallTests
from envweave.testing.suites.vector.parity import VectorParityTests
from envweave.testing.suites.vector.recovery import VectorRecoveryTests
from envweave.testing.suites.vector.steps import VectorStepTests
from envweave.testing.suites.vector.tasks import VectorTaskTests

__all__ = ["ExecutorSuite", "VectorSuite"]


class ExecutorSuite(VectorStepTests, VectorCallTests, VectorRecoveryTests, VectorParityTests, VectorTaskTests):
    """For another executor under `VectorEnv`, or another server behind it."""


class VectorSuite(ExecutorSuite, VectorArgumentTests):
    """For a vector of your own, with the interface of `envweave.VectorEnv`."""

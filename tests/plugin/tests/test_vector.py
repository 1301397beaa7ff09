import pytest
from envweave_plugin_demo.vector import make_vector

from envweave.testing.suites import ExecutorSuite


class TestPool(ExecutorSuite):
    timeouts = False

    @pytest.fixture
    def make_vector(self):
        return make_vector

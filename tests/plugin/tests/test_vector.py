import pytest
from envweave.testing.suites import ExecutorSuite

from envweave_plugin_demo.vector import make_vector


class TestPool(ExecutorSuite):
    timeouts = False

    @pytest.fixture
    def make_vector(self):
        return make_vector

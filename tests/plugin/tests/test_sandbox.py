import pytest
from envweave_plugin_demo.sandbox import quick_sandbox

from envweave.testing.suites import BoundarySuite


class TestQuick(BoundarySuite):
    confined = False

    @pytest.fixture
    def make_sandbox(self):
        return quick_sandbox

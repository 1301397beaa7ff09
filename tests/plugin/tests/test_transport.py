import pytest
from envweave.testing.suites import TransportSuite

from envweave_plugin_demo.transport import connect


class TestPickled(TransportSuite):
    @pytest.fixture
    def connect(self):
        return connect

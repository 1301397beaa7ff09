import pytest
from envweave_plugin_demo.transport import connect

from envweave.testing.suites import TransportSuite


class TestPickled(TransportSuite):
    @pytest.fixture
    def connect(self):
        return connect

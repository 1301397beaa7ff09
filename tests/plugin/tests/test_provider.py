import pytest
from envweave_plugin_demo.provider import NiceProvider

from envweave.testing.suites import ProviderSuite


class TestNice(ProviderSuite):
    @pytest.fixture
    def make_provider(self):
        return lambda program=None: NiceProvider("demo-coin", program=program)

    @pytest.fixture
    def owner_code(self):
        return "from envweave_plugin_demo.provider import NiceProvider\nprovider = NiceProvider('demo-coin')"

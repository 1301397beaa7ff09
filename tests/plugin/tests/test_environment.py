from envweave.testing.suites import EnvironmentSuite

from envweave_plugin_demo import Coin


class TestCoin(EnvironmentSuite):
    env = "demo-coin"


class TestDie(EnvironmentSuite):
    env = Coin
    kwargs = {"sides": 6}  # noqa: RUF012

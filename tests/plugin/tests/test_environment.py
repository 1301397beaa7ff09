from envweave_plugin_demo import Coin

from envweave.testing.suites import EnvironmentSuite


class TestCoin(EnvironmentSuite):
    env = "demo-coin"


class TestDie(EnvironmentSuite):
    env = Coin
    kwargs = {"sides": 6}  # noqa: RUF012

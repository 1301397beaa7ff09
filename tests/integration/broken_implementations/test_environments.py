from envweave.testing.suites import EnvironmentSuite


class TestSound(EnvironmentSuite):
    env = "pkg://broken_environments:Sound"


class TestIgnoresSeed(EnvironmentSuite):
    env = "pkg://broken_environments:IgnoresSeed"


class TestSharesState(EnvironmentSuite):
    env = "pkg://broken_environments:SharesState"


class TestDependsOnTheProcess(EnvironmentSuite):
    env = "pkg://broken_environments:DependsOnTheProcess"


class TestSharesItsSnapshot(EnvironmentSuite):
    env = "pkg://broken_environments:SharesItsSnapshot"


class TestNamesNothing(EnvironmentSuite):
    pass

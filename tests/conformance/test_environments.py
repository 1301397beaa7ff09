"""The environment suite for the environments that ship."""

from envweave.testing.suites import EnvironmentSuite


class TestCounter(EnvironmentSuite):
    env = "counter"


class TestEcho(EnvironmentSuite):
    env = "echo"
    accepted = ("episode_ends",)


class TestLineWorld(EnvironmentSuite):
    env = "lineworld"
    kwargs = {"size": 3}  # noqa: RUF012


class TestNim(EnvironmentSuite):
    env = "nim"


class TestRockPaperScissors(EnvironmentSuite):
    env = "rock-paper-scissors"


class Code(EnvironmentSuite):
    """Environments that run code; random text is rarely code, so that few steps are enough."""

    episodes = 1
    max_steps = 10
    accepted = ("episode_ends", "seed_matters")


class TestCodeAct(Code):
    env = "codeact"


class TestCoding(Code):
    env = "coding"


class TestREPL(Code):
    env = "repl"

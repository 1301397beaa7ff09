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


class OneStep(EnvironmentSuite):
    """Environments whose episodes have one step; their tasks, not their seeds, are different."""

    episodes = 3
    max_steps = 3


class TestCodeFix(OneStep):
    env = "codefix"


class TestGSM8K(OneStep):
    env = "gsm8k"
    kwargs = {"dataset_path": "sample"}  # noqa: RUF012


class TestGSM8KMCQ(OneStep):
    env = "gsm8k-mcq"
    kwargs = {"dataset_path": "sample"}  # noqa: RUF012

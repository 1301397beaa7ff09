"""The example environments, and training runs: `python -m envweave.examples.train_lineworld_pg`."""

from envweave.envs.counter import CounterEnv
from envweave.envs.lineworld import LineWorldEnv
from envweave.envs.nim import NimEnv
from envweave.envs.rock_paper_scissors import RockPaperScissorsEnv

__all__ = ["CounterEnv", "LineWorldEnv", "NimEnv", "RockPaperScissorsEnv"]

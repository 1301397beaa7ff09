"""GSM8K as environments: free text, and multiple choice."""

from envweave.envs.gsm8k.environment import GSM8KEnv, WordProblem, WrittenAnswer
from envweave.envs.gsm8k.mcq import GSM8KMCQEnv

__all__ = ["GSM8KEnv", "GSM8KMCQEnv", "WordProblem", "WrittenAnswer"]

"""A small reward for the form of the code."""

from __future__ import annotations

from typing import Any

from envweave.core.parse_code import UnreadableError
from envweave.rewards.base import RewardTransform, checked_name, checked_number
from envweave.rewards.run import read_code, read_run
from envweave.rewards.source import read_tree


class CodeQualityTransform(RewardTransform):
    """Two metrics of the code that was run, each a contribution of its own.

        concise     +0.1 if it ran without failing and has 1 to 100 characters, without space at both ends
        syntax      -0.2 if it is not Python, or too long or nested too deeply to be read

    Code that fails earns nothing for being short: otherwise the shortest failure would pay. Without code in
    `metadata["last_code"]`, or without a result, there is no score.
    """

    def __init__(
        self,
        *,
        concise_bonus: float = 0.1,
        max_length_threshold: int = 100,
        syntax_penalty: float = -0.2,
        name: str = "code_quality",
    ) -> None:
        self.concise_bonus = checked_number("concise_bonus", concise_bonus)
        self.max_length_threshold = checked_number("max_length_threshold", max_length_threshold, least=0)
        self.syntax_penalty = checked_number("syntax_penalty", syntax_penalty)
        self.name = checked_name(name)

    def score(self, observation: Any) -> dict[str, float]:
        code, run = read_code(observation), read_run(observation)
        try:
            valid = read_tree(observation) is not None
        except UnreadableError:
            valid = False
        short = 0 < len(code.strip()) <= self.max_length_threshold
        return {
            "concise": self.concise_bonus if short and valid and run.success else 0.0,
            "syntax": 0.0 if valid else self.syntax_penalty,
        }

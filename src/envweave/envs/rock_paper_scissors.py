"""Rock, paper, scissors: both players act at once. Shows a simultaneous environment with several agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envweave.core.environment import Environment
from envweave.results import MultiAgentStepResult, ResetResult, StepResult
from envweave.types import Action, Observation

BEATS = {"rock": "scissors", "paper": "rock", "scissors": "paper"}


@dataclass
class Throw(Action):
    """Rock beats scissors, scissors beat paper, paper beats rock."""

    hand: Literal["rock", "paper", "scissors"]


@dataclass
class Round(Observation):
    """What the other one threw last (empty before the first round), and the score."""

    other: str
    won: int
    lost: int
    rounds_left: int


class RockPaperScissorsEnv(Environment[Throw, Round]):
    """`rounds` rounds between `left` and `right`; each gives the winner 1 and the loser -1."""

    def __init__(self, *, rounds: int = 3) -> None:
        if rounds < 1:
            raise ValueError(f"rounds is {rounds}, not a positive number")
        self._rounds = rounds
        self.agents = ["left", "right"]
        self._hands = dict.fromkeys(self.agents, "")
        self._wins = dict.fromkeys(self.agents, 0)
        self._left = rounds

    def reset(self) -> ResetResult[dict[str, Round]]:  # nothing here is random
        self._hands = dict.fromkeys(self.agents, "")
        self._wins = dict.fromkeys(self.agents, 0)
        self._left = self._rounds
        return ResetResult(self._look())

    def step(self, actions: dict[str, Throw]) -> MultiAgentStepResult[Round]:
        self._hands = {agent: throw.hand for agent, throw in actions.items()}
        self._left -= 1
        left, right = self._hands["left"], self._hands["right"]
        score = float(BEATS[left] == right) - float(BEATS[right] == left)
        self._wins["left"] += score > 0
        self._wins["right"] += score < 0
        over = self._left == 0
        return StepResult(self._look(), {"left": score, "right": -score}, {"__all__": over}, {"__all__": False})

    def _look(self) -> dict[str, Round]:
        pairs = (("left", "right"), ("right", "left"))
        return {me: Round(self._hands[it], self._wins[me], self._wins[it], self._left) for me, it in pairs}

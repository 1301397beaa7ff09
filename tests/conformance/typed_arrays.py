"""Environments with arrays, for the suite of types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

import envweave as ew


def cart_pole() -> Any:
    return gymnasium.make("CartPole-v1")


class Composite(gymnasium.Env[Any, Any]):
    """Arrays of several kinds in dicts and tuples."""

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Dict(
            {
                "image": spaces.Box(0, 255, (2, 3, 3), np.uint8),
                "pair": spaces.Tuple((spaces.Discrete(4), spaces.Box(-1, 1, (2,), np.float32))),
                "bits": spaces.MultiBinary(3),
                "empty": spaces.Box(-1, 1, (0, 3), np.float64),
                "text": spaces.Text(5),
            }
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, int(action) == 0, False, {}


class Parallel:
    """PettingZoo's form, with a space for each agent."""

    metadata: dict[str, Any] = {"name": "parallel"}  # noqa: RUF012
    possible_agents = ["ann", "bob"]  # noqa: RUF012

    def __init__(self) -> None:
        self.agents: list[str] = []
        self._spaces = {"ann": spaces.Box(-1, 1, (2,), np.float32), "bob": spaces.Box(0, 9, (1, 2), np.int16)}

    def observation_space(self, agent: str) -> Any:
        return self._spaces[agent]

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents = list(self.possible_agents)
        if seed is not None:
            for space in self._spaces.values():
                space.seed(seed)
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        over = actions["ann"] == 0
        seen, agents = self._seen(), self.agents
        self.agents = [] if over else agents
        return seen, dict.fromkeys(agents, 1.0), dict.fromkeys(agents, over), dict.fromkeys(agents, False), {}

    def _seen(self) -> dict[str, Any]:
        return {agent: self._spaces[agent].sample() for agent in self.agents}


@dataclass(eq=False)
class Picture(ew.Observation):
    """A picture. A dtype that is not in the hints is the one that numpy gives to nested lists."""

    image: npt.NDArray[np.uint8]
    gain: np.float32
    mask: np.ndarray | None
    frames: dict[str, np.ndarray]


def picture(step: int) -> Picture:
    image = np.arange(6, dtype=np.uint8).reshape(2, 3) + step
    return Picture(image, np.float32(0.1), np.array([True, False]), {"left": image * 0.5})


class Camera(ew.Environment[int, Picture]):
    def __init__(self) -> None:
        self._step = 0

    def reset(self) -> Picture:
        self._step = 0
        return picture(0)

    def step(self, action: int) -> Picture:
        self._step += 1
        return picture(self._step)

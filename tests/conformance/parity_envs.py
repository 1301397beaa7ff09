"""Environments with other packages: pydantic, numpy, Gymnasium, PettingZoo."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from pydantic import BaseModel, Field

import envweave as ew
from envweave.testing.suites.scripted import ScriptedEnv


class Arrays(ScriptedEnv):
    """Returns what numpy makes of numbers."""

    def step(self, action: Any) -> Any:
        import numpy as np

        return {
            "floats": (np.array([[1.5, 2.5]], np.float32), np.float32(0.5), np.bool_(False), np.bool_(False), {}),
            "integers": (np.arange(3), np.int64(2), False, True, {"at": np.int64(7), "mask": np.array([True, False])}),
        }[action["return"]]


class Wave(BaseModel):
    """Wave at the tide."""

    height: float = Field(ge=0, le=10)
    note: str = ""


class Level(BaseModel):
    """Where the water stands."""

    level: float
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] = {}


class Tide(ew.AsyncEnvironment[Wave, Level]):
    """An async environment with pydantic's models, a transform and a state of its own."""

    deadline = 3600.0

    def __init__(self) -> None:
        self._level = 0.0
        self._random = Random(0)

    def transform(self, observation: Level) -> Level:
        return observation.model_copy(update={"reward": None if observation.level > 50 else observation.level / 2})

    async def reset(self, *, seed: int | None = None, episode_id: str | None = None) -> Level:
        await asyncio.sleep(0)
        self._random.seed(seed)
        self._level = self._random.random()
        return Level(level=self._level, metadata={"episode": episode_id})

    async def step(self, action: Wave) -> Level:
        await asyncio.sleep(0)
        if action.note == "fail":
            raise ZeroDivisionError("low tide")
        if action.note == "refuse":
            raise ew.InvalidActionError("not this wave")
        self._level += action.height
        return Level(level=self._level, done=self._level >= 30, metadata={"note": action.note})

    async def state(self) -> dict[str, Any]:
        return {"level": self._level}

    async def render(self) -> str:
        return "~" * int(self._level)

    async def snapshot(self) -> Any:
        return self._level, self._random.getstate()

    async def restore(self, snapshot: Any) -> None:
        self._level, state = snapshot
        self._random.setstate(state)

    async def close(self) -> None:
        await asyncio.sleep(0)


def spaces() -> Any:
    """A Gymnasium environment with a space of each kind, and arrays in all of them."""
    import gymnasium
    import numpy as np
    from gymnasium import spaces as gym

    class Spaces(gymnasium.Env):
        metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
        action_space = gym.Dict(
            {
                "turn": gym.Discrete(3, start=-1),
                "push": gym.Box(-1.0, 1.0, (2,), np.float32),
                "flags": gym.MultiBinary(3),
                "many": gym.MultiDiscrete([2, 3]),
                "both": gym.Tuple((gym.Discrete(2), gym.Text(5))),
            }
        )
        observation_space = gym.Box(-np.inf, np.inf, (2, 2), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._at = self.np_random.normal(size=(2, 2)).astype(np.float32)
            return self._at, {"options": options, "count": np.int64(3)}

        def step(self, action):
            self._at = self._at + np.float32(action["turn"]) + action["push"]
            seen = {"action": action, "dtype": str(action["push"].dtype)}
            return self._at, np.float32(self._at.sum()), bool(action["flags"].all()), np.bool_(False), seen

        def render(self):
            return np.zeros((2, 2, 3), np.uint8)

    return Spaces()


def market() -> Any:
    """A PettingZoo `ParallelEnv` that loses an agent now and then."""
    import numpy as np
    from gymnasium import spaces as gym
    from pettingzoo import ParallelEnv

    class Market(ParallelEnv):
        metadata = {"name": "market"}  # noqa: RUF012
        possible_agents = ("buyer", "seller", "thief")

        def observation_space(self, agent):
            return gym.Box(0, 100, (2,), np.int64)

        def action_space(self, agent):
            return gym.Discrete(4 if agent == "thief" else 3)

        def reset(self, seed=None, options=None):
            self.agents = list(self.possible_agents)
            self._price = np.random.default_rng(seed).integers(1, 50)
            return self._seen(), {agent: {} for agent in self.agents}

        def step(self, actions):
            self._price += sum(actions.values())
            caught = actions.get("thief") == 3
            over = bool(self._price > 60)
            terminated = {agent: over or (caught and agent == "thief") for agent in self.agents}
            reward = {agent: float(self._price) for agent in self.agents}
            seen, infos = self._seen(), {agent: {"price": self._price} for agent in self.agents}
            truncated = dict.fromkeys(self.agents, False)
            self.agents = [agent for agent in self.agents if not terminated[agent]]
            return seen, reward, terminated, truncated, infos

        def _seen(self):
            return {agent: np.array([self._price, number]) for number, agent in enumerate(self.agents)}

        def render(self):
            return f"price {self._price}"

    return Market()


def turns() -> Any:
    """A PettingZoo `AECEnv`: two players count to seven."""
    import numpy as np
    from gymnasium import spaces as gym
    from pettingzoo import AECEnv

    class Turns(AECEnv):
        metadata = {"name": "turns"}  # noqa: RUF012
        possible_agents = ("first", "second")

        def observation_space(self, agent):
            return gym.Dict({"count": gym.Discrete(20), "mask": gym.Box(0, 1, (3,), np.int8)})

        def action_space(self, agent):
            return gym.Discrete(3)

        def observe(self, agent):
            return {"count": self._count, "mask": np.ones(3, np.int8)}

        def reset(self, seed=None, options=None):
            self._count = 0 if seed is None else seed % 3
            self.agents = list(self.possible_agents)
            self.rewards = dict.fromkeys(self.agents, 0.0)
            self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
            self.terminations = dict.fromkeys(self.agents, False)
            self.truncations = dict.fromkeys(self.agents, False)
            self.infos = {agent: {} for agent in self.agents}
            self.agent_selection = "first"

        def step(self, action):
            agent = self.agent_selection
            if self.terminations[agent]:
                self._was_dead_step(action)
                return
            self._count += int(action) + 1
            other = "second" if agent == "first" else "first"
            if self._count >= 7:
                self.rewards = {agent: -1.0, other: 1.0}
                self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = other

    return Turns()

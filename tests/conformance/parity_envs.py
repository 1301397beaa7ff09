"""Environments for the parity suite. Each does what its actions say, so that a test can say what shall happen."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from random import Random
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, Field

import envweave as ew
from envweave.errors import BusyError, ProviderError, SandboxError

RAISED: dict[str, BaseException] = {
    "plain": ZeroDivisionError("division by zero"),
    "text": RuntimeError("ünïcode ☃ and\na second line"),
    "silent": OSError(),
    "exit": SystemExit("enough"),
    "usage": ew.UsageError("some other handle was misused", "not yours"),
    "busy": BusyError("inside", "not yours either"),
    "sandbox": SandboxError("the sandbox is gone", "start another"),
    "provider": ProviderError("the machine is gone"),
    "env": ew.EnvError("the author says so", "ask them"),
    "unimplemented": NotImplementedError("not here"),
}


def raise_(name: str) -> None:
    error = RAISED[name]
    raise type(error)(*error.args)


class Desk:
    """One agent; an action is a dict of orders, carried out in this order:

    {"wait": fifo, "raise": name, "refuse": text, "log": [...], "ask": [...], "need": {...}, "end": reason,
     "return": what a step may return instead of a result, "break": member, "reply": observation, "reward": number}
    """

    def __init__(self, *, start: int = 0) -> None:
        self._start = start
        self._count = start
        self._broken: dict[str, str] = {}
        self._random = Random(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None, first: Any = None) -> Any:
        self._count = self._start
        if seed is not None:
            self._random.seed(seed)
        orders = dict(first or {})
        if "raise" in orders:
            raise_(orders["raise"])
        if "refuse" in orders:
            raise ew.UsageError(orders["refuse"], "other options, please")
        if "return" in orders:
            return odd_return(orders["return"])
        observation = orders.get("reply", {"count": self._count, "draw": self._random.randrange(1000)})
        return ew.ResetResult(observation, {"seed": seed, "options": options}, requests_of(orders))

    def step(self, action: Any) -> Any:
        self._count += 1
        if not isinstance(action, dict):
            return ew.StepResult(action, float(self._count))
        return self._carry_out(action)

    def respond(self, request_id: str, value: Any) -> Any:
        if value is None:
            return None
        return self._carry_out(value if isinstance(value, dict) else {"reply": [request_id, value]})

    def _carry_out(self, orders: dict[str, Any]) -> Any:
        if "wait" in orders:
            with open(orders["wait"]) as gate:  # a FIFO: opens when the test does, ends when the test closes it
                gate.read()
        if "raise" in orders:
            raise_(orders["raise"])
        if "refuse" in orders:
            raise ew.InvalidActionError(orders["refuse"], "another one, please")
        if "break" in orders:
            self._broken[orders["break"]] = orders.get("how", "plain")
        if "return" in orders:
            return odd_return(orders["return"])
        if "nest" in orders:
            return ew.StepResult(nested(orders["nest"]))
        reason = orders.get("end")
        requests = requests_of(orders)
        if reason not in (None, "terminated", "truncated"):
            requests.append(ew.EpisodeEnd(reason=reason, final_info={"why": reason}))
        observation = orders.get("reply", {"count": self._count, "draw": self._random.randrange(1000)})
        return ew.StepResult(
            observation,
            orders.get("reward", float(self._count)),
            terminated=reason == "terminated",
            truncated=reason == "truncated",
            info=orders.get("info", {}),
            requests=requests,
        )

    def _check(self, member: str) -> None:
        if member in self._broken:
            raise_(self._broken[member])

    def state(self) -> dict[str, Any]:
        self._check("state")
        return {"count": self._count, "nested": {"broken": sorted(self._broken), "tuple": (1, 2)}}

    def render(self) -> Any:
        self._check("render")
        return {"frame": [[0, self._count]], "text": f"count {self._count} ☃"}

    def snapshot(self) -> Any:
        self._check("snapshot")
        return {"count": self._count, "random": self._random.getstate()}

    def restore(self, snapshot: Any) -> None:
        self._check("restore")
        self._count = snapshot["count"]
        self._random.setstate(snapshot["random"])

    def close(self) -> None:
        self._check("close")


def requests_of(orders: dict[str, Any]) -> list[ew.Request]:
    requests: list[ew.Request] = []
    for number, name in enumerate(orders.get("log", ())):
        requests.append(ew.LogEvent(name=name, payload={"number": number, "deep": {"list": [1, None, "x"]}}))
    requests.extend(ew.ToolCall(**ask) for ask in orders.get("ask", ()))
    if "need" in orders:
        requests.append(ew.NeedAction(**orders["need"]))
    return requests


def nested(levels: int) -> Any:
    """So many levels of lists and dicts in one another."""
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


class Colour(Enum):
    RED = "red"


@dataclass
class Seen(ew.Observation):
    """What the desk shows."""

    colour: Colour
    pair: tuple[int, ...]


def odd_return(kind: str) -> Any:
    """What authors return, right and wrong."""
    import numpy as np

    return {
        "none": None,
        "triple": (1, 2, 3),
        "quadruple": ("seen", 1.5, True, {"TimeLimit.truncated": True}),
        "nan": ("seen", float("nan"), False, False, {}),
        "numpy": (np.array([[1.5, 2.5]], dtype=np.float32), np.float32(0.5), np.bool_(False), np.bool_(False), {}),
        "integers": (np.arange(3), np.int64(2), False, True, {"at": np.int64(7), "mask": np.array([True, False])}),
        "dataclass": Seen(Colour.RED, (1, 2), reward=0.25, metadata={"é": 1}),
        "done": Seen(Colour.RED, (), reward=0.0, done=True, metadata={"truncated": True}),
        "dict": {"seen": 1, "reward": 2, "done": True, "metadata": {"a": 1}},
        "mapping": MappingProxyType({"seen": (1, 2)}),
        "text": "just text",
        "number": 7,
        "list": [],
        "false": False,
        "bad reward": ("seen", "much", False, False, {}),
        "bad info": ("seen", 1.0, False, False, [1]),
        "bad flag": ("seen", 1.0, "yes", False, {}),
    }[kind]


class Town:
    """Agents come and go as their words say. All act, unless somebody names those who act next."""

    agents: list[str]
    to_act: list[str] | None

    def __init__(self) -> None:
        self.agents = ["ann", "bob", "cyd"]
        self.to_act = None
        self._hour = 0

    def reset(self, *, seed: int | None = None) -> Any:
        self.agents, self.to_act, self._hour = ["ann", "bob", "cyd"], None, 0
        if seed == 13:
            raise ZeroDivisionError("thirteen")
        if seed is not None:
            Random(seed).shuffle(self.agents)
        return ew.ResetResult(self._look(), {agent: {"born": 0} for agent in self.agents})

    def step(self, actions: dict[str, str]) -> Any:
        before = list(self.agents)
        self._hour += 1
        self.to_act = None
        terminated, truncated, requests, reward = {}, {}, [], {}
        for agent, words in actions.items():
            word, *rest = words.split()
            if word == "fail":
                raise ZeroDivisionError(f"{agent} fails")
            if word == "refuse":
                self._hour -= 1
                raise ew.InvalidActionError(f"{agent} does not want to", "ask politely")
            if word in ("die", "win", "leave", "tire"):
                self.agents.remove(agent)
            if word in ("die", "win"):
                terminated[agent] = True
            if word == "tire":
                truncated[agent] = True
            if word == "ghost":  # ends, and stays in `agents`
                terminated[agent] = True
            if word == "invite":
                self.agents += rest
            if word == "next":
                self.to_act = rest
            if word == "end":
                terminated["__all__"] = True
            if word == "stop":
                truncated["__all__"] = True
            if word == "quit":
                requests.append(ew.EpisodeEnd(reason="invalid_action", agent_id=agent, final_info={"by": agent}))
            if word == "log":
                requests.append(ew.LogEvent(name="said", payload={"by": agent}))
            if word == "call":
                requests.append(ew.ToolCall(tool_name=rest[0], arguments={"by": agent}, agent_id=agent))
            reward[agent] = 1.0 if word == "win" else None if word == "unscored" else 0.0
        info = {agent: {"hour": self._hour} for agent in before}
        return ew.StepResult(self._look(before), reward, terminated, truncated, info, requests)

    def respond(self, request_id: str, value: Any) -> Any:
        if value is None:
            return None
        return ew.StepResult(self._look(), dict.fromkeys(self.agents, 0.5), {}, {}, {"value": value})

    def _look(self, agents: list[str] | None = None) -> dict[str, Any]:
        return {agent: {"hour": self._hour, "there": list(self.agents)} for agent in agents or self.agents}

    def snapshot(self) -> Any:
        return list(self.agents), self.to_act, self._hour

    def restore(self, snapshot: Any) -> None:
        agents, self.to_act, self._hour = snapshot
        self.agents = list(agents)


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

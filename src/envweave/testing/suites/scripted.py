"""Environments that do what their actions say, so that a test decides what happens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random
from types import MappingProxyType
from typing import Any

from envweave.errors import BusyError, EnvError, InvalidActionError, ProviderError, SandboxError, UsageError
from envweave.requests import EpisodeEnd, LogEvent, NeedAction, Request, ToolCall
from envweave.results import ResetResult, StepResult
from envweave.types import Observation

RAISED: dict[str, BaseException] = {
    "plain": ZeroDivisionError("division by zero"),
    "text": RuntimeError("ünïcode ☃ and\na second line"),
    "silent": OSError(),
    "exit": SystemExit("enough"),
    "usage": UsageError("some other handle was misused", "not yours"),
    "busy": BusyError("inside", "not yours either"),
    "sandbox": SandboxError("the sandbox is gone", "start another"),
    "provider": ProviderError("the machine is gone"),
    "env": EnvError("the author says so", "ask them"),
    "unimplemented": NotImplementedError("not here"),
}


def raise_(name: str) -> None:
    error = RAISED[name]
    raise type(error)(*error.args)


class ScriptedEnv:
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
            raise UsageError(orders["refuse"], "other options, please")
        if "return" in orders:
            return odd_return(orders["return"])
        observation = orders.get("reply", {"count": self._count, "draw": self._random.randrange(1000)})
        return ResetResult(observation, {"seed": seed, "options": options}, tuple(requests_of(orders)))

    def step(self, action: Any) -> Any:
        self._count += 1
        if not isinstance(action, dict):
            return StepResult(action, float(self._count))
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
            raise InvalidActionError(orders["refuse"], "another one, please")
        if "break" in orders:
            self._broken[orders["break"]] = orders.get("how", "plain")
        if "return" in orders:
            return odd_return(orders["return"])
        if "nest" in orders:
            return StepResult(nested(orders["nest"]))
        reason = orders.get("end")
        requests = requests_of(orders)
        if reason not in (None, "terminated", "truncated"):
            requests.append(EpisodeEnd(reason=reason, final_info={"why": reason}))
        observation = orders.get("reply", {"count": self._count, "draw": self._random.randrange(1000)})
        return StepResult(
            observation,
            orders.get("reward", float(self._count)),
            terminated=reason == "terminated",
            truncated=reason == "truncated",
            info=orders.get("info", {}),
            requests=tuple(requests),
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


def requests_of(orders: dict[str, Any]) -> list[Request]:
    requests: list[Request] = []
    for number, name in enumerate(orders.get("log", ())):
        requests.append(LogEvent(name=name, payload={"number": number, "deep": {"list": [1, None, "x"]}}))
    requests.extend(ToolCall(**ask) for ask in orders.get("ask", ()))
    if "need" in orders:
        requests.append(NeedAction(**orders["need"]))
    return requests


def nested(levels: int) -> Any:
    """So many levels of lists and dicts in one another."""
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


class Shade(Enum):
    RED = "red"


@dataclass
class ScriptedObservation(Observation):
    """What the environment shows."""

    colour: Shade
    pair: tuple[int, ...]


def odd_return(kind: str) -> Any:
    """What authors return, right and wrong."""
    return {
        "none": None,
        "triple": (1, 2, 3),
        "quadruple": ("seen", 1.5, True, {"TimeLimit.truncated": True}),
        "nan": ("seen", float("nan"), False, False, {}),
        "dataclass": ScriptedObservation(Shade.RED, (1, 2), reward=0.25, metadata={"é": 1}),
        "done": ScriptedObservation(Shade.RED, (), reward=0.0, done=True, metadata={"truncated": True}),
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


class ScriptedAgentsEnv:
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
        return ResetResult(self._look(), {agent: {"born": 0} for agent in self.agents})

    def step(self, actions: dict[str, str]) -> Any:
        before = list(self.agents)
        self._hour += 1
        self.to_act = None
        requests: list[Request] = []
        terminated: dict[str, bool] = {}
        truncated: dict[str, bool] = {}
        reward: dict[str, float | None] = {}
        for agent, words in actions.items():
            word, *rest = words.split()
            if word == "fail":
                raise ZeroDivisionError(f"{agent} fails")
            if word == "refuse":
                self._hour -= 1
                raise InvalidActionError(f"{agent} does not want to", "ask politely")
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
                requests.append(EpisodeEnd(reason="invalid_action", agent_id=agent, final_info={"by": agent}))
            if word == "log":
                requests.append(LogEvent(name="said", payload={"by": agent}))
            if word == "call":
                requests.append(ToolCall(tool_name=rest[0], arguments={"by": agent}, agent_id=agent))
            reward[agent] = 1.0 if word == "win" else None if word == "unscored" else 0.0
        info = {agent: {"hour": self._hour} for agent in before}
        return StepResult(self._look(before), reward, terminated, truncated, info, tuple(requests))

    def respond(self, request_id: str, value: Any) -> Any:
        if value is None:
            return None
        return StepResult(self._look(), dict.fromkeys(self.agents, 0.5), {}, {}, {"value": value})

    def _look(self, agents: list[str] | None = None) -> dict[str, Any]:
        return {agent: {"hour": self._hour, "there": list(self.agents)} for agent in agents or self.agents}

    def snapshot(self) -> Any:
        return list(self.agents), self.to_act, self._hour

    def restore(self, snapshot: Any) -> None:
        agents, self.to_act, self._hour = snapshot
        self.agents = list(agents)

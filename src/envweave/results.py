"""What `reset` and `step` return: slotted dataclasses that unpack and index as in Gymnasium.

obs, info = env.reset()
obs, reward, terminated, truncated, info = env.step(action)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from envweave.requests import Request

ObsT = TypeVar("ObsT", default=Any)
RewardT = TypeVar("RewardT", default="float | None")
FlagT = TypeVar("FlagT", default=bool)


@dataclass(slots=True)
class ResetResult(Generic[ObsT]):
    """The start of an episode."""

    observation: ObsT
    info: dict[str, Any] = field(default_factory=dict)
    requests: tuple[Request, ...] = ()

    @property
    def obs(self) -> ObsT:
        return self.observation

    @property
    def reward(self) -> None:
        return None

    @property
    def terminated(self) -> bool:
        return False

    @property
    def truncated(self) -> bool:
        return False

    @property
    def done(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter((self.observation, self.info))

    def __getitem__(self, index: int) -> Any:
        return (self.observation, self.info)[index]

    def __len__(self) -> int:
        return 2


@dataclass(slots=True, init=False)
class StepResult(Generic[ObsT, RewardT, FlagT]):
    """The outcome of one step. With several agents, `reward`, `terminated` and `truncated` are dicts by agent."""

    observation: ObsT
    reward: RewardT
    """None means "not scored"; it is never to be read as 0.0."""
    terminated: FlagT
    """The task itself is over: solved or lost."""
    truncated: FlagT
    """The episode was cut off: by a limit, a deadline or a failure."""
    info: dict[str, Any]
    requests: tuple[Request, ...]
    """What the environment tells or asks, in order."""

    def __init__(
        self,
        observation: ObsT,
        reward: RewardT = None,  # type: ignore[assignment]  # the default of RewardT allows it
        terminated: FlagT = False,  # type: ignore[assignment]  # the default of FlagT allows it
        truncated: FlagT = False,  # type: ignore[assignment]
        info: dict[str, Any] | None = None,
        requests: tuple[Request, ...] = (),
        *,
        done: bool = False,
    ) -> None:
        """`done` is OpenEnv's word: it means `terminated`, unless the result says that it is truncated."""
        self.observation = observation
        self.reward = reward
        self.terminated = terminated
        self.truncated = truncated
        self.info = {} if info is None else info
        self.requests = requests
        if done and not truncated:
            self.terminated = True  # type: ignore[assignment]

    @property
    def obs(self) -> ObsT:
        return self.observation

    @property
    def done(self) -> bool:
        """The whole episode is over."""
        terminated: Any = self.terminated
        truncated: Any = self.truncated
        if isinstance(terminated, bool) and isinstance(truncated, bool):
            return terminated or truncated
        return all_agents_done(terminated, truncated)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.observation, self.reward, self.terminated, self.truncated, self.info))

    def __getitem__(self, index: int) -> Any:
        return (self.observation, self.reward, self.terminated, self.truncated, self.info)[index]

    def __len__(self) -> int:
        return 5


MultiAgentStepResult: TypeAlias = StepResult[Mapping[str, ObsT], Mapping[str, float | None], Mapping[str, bool]]
"""What a step with several agents returns: dicts by agent; `"__all__"` among the flags is the whole episode."""


def all_agents_done(terminated: bool | Mapping[str, bool], truncated: bool | Mapping[str, bool]) -> bool:
    """True if `"__all__"` says so in either, or each agent named in either has ended."""
    ends = [flags if isinstance(flags, Mapping) else {"__all__": flags} for flags in (terminated, truncated)]
    if any("__all__" in flags for flags in ends):
        return any(flags.get("__all__", False) for flags in ends)
    agents = {agent for flags in ends for agent in flags}
    return bool(agents) and all(any(flags.get(agent, False) for flags in ends) for agent in agents)

"""What can be seen of an episode, written down while it is played."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from envweave.requests import Request
from envweave.results import ResetResult, StepResult

NOTHING: Final = object()
"""In place of a return value that never came."""

Call: TypeAlias = Literal["reset", "step", "respond"]


class Watch(Protocol):
    """Knows what the author's code returned last, before the framework read it."""

    raw: Any
    transform_failure: Exception | None


@dataclass(slots=True)
class Frame:
    """One answer of the environment, with prints of what it said at the time."""

    call: Call
    raw: Any
    result: ResetResult[Any] | StepResult[Any]
    pending: tuple[Request, ...]
    observation: str
    verdict: str
    info: str


@dataclass(slots=True)
class FailedCall:
    """A call that raised; `raw` is what the author's code returned, if it did."""

    call: Call
    error: BaseException
    raw: Any = NOTHING


@dataclass(slots=True)
class PlayedEpisode:
    """What happened, as far as it went."""

    seed: int
    task: Any = field(default=None, kw_only=True)
    """What `reset` was given as `task`; None for nothing."""
    frames: list[Frame] = field(default_factory=list)
    agents: tuple[Any, ...] = ()
    """What the environment's `agents` were after the reset."""
    actions: list[Any] = field(default_factory=list)
    refusals: int = 0
    failure: FailedCall | None = None
    speechless: Exception | None = None
    """Why no action could be drawn."""

    @property
    def ended(self) -> bool:
        return bool(self.frames) and self.frames[-1].result.done

    @property
    def steps(self) -> list[Frame]:
        return self.frames[1:]

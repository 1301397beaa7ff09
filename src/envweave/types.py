"""What an environment author subclasses: plain dataclasses.

Their own fields are keyword-only, so a subclass may add required fields:

    @dataclass
    class Move(Action):
        delta: int

    Move(1), Move(delta=1)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Action:
    """What an agent does. Its docstring and fields reach the agent as JSON Schema."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a field name that is mistyped is refused, not dropped)

    metadata: dict[str, Any] = field(default_factory=dict, kw_only=True)


@dataclass
class Observation:
    """What an agent sees after `reset` or `step`."""

    done: bool = field(default=False, kw_only=True)
    reward: float | None = field(default=None, kw_only=True)
    """None means "not scored", which is not 0.0."""
    metadata: dict[str, Any] = field(default_factory=dict, kw_only=True)


@dataclass
class State:
    """Where an episode stands. It is for the driver, not for the agent."""

    episode_id: str | None = field(default=None, kw_only=True)
    step_count: int = field(default=0, kw_only=True)

"""What an environment tells or asks its driver.

Requests are data; `match` on them:

    match request:
        case NeedAction(agent_id=agent): ...
        case ToolCall(request_id=id, tool_name=name, arguments=arguments): ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

EndReason: TypeAlias = Literal[
    "terminated", "truncated", "agent_left", "invalid_action", "timeout", "infra_error", "closed"
]
"""Why an episode ended.

    terminated       the task itself is over: solved or lost
    truncated        a limit was reached: bootstrap the value here
    agent_left       no agent is left to act
    invalid_action   the environment ends an episode on an illegal move
    timeout          a deadline passed
    infra_error      environment code, its machine or its connection failed: not scored
    closed           the driver ended the episode with `reset` or `close`
"""

DEFAULT_AGENT = "agent"
"""The `agent_id` of the one agent of a single-agent environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedAction:
    """An agent must act next; there is one of these for each agent that must.

    Frozen, because steps share the same instance as long as nothing about it changes.
    """

    kind: Literal["need_action"] = field(default="need_action", init=False, repr=False)
    env_id: str = field(default="", repr=False)
    agent_id: str = DEFAULT_AGENT
    action_schema: dict[str, Any] | None = field(default=None, repr=False)
    deadline: float | None = None
    """Seconds from this request; an action that comes later ends the episode."""


@dataclass(slots=True, kw_only=True)
class EpisodeEnd:
    """Exactly once for each episode, and once for each agent that leaves before its end."""

    kind: Literal["episode_end"] = field(default="episode_end", init=False, repr=False)
    env_id: str = field(default="", repr=False)
    reason: EndReason
    agent_id: str | None = None
    """The agent that left early; None where the whole episode ended."""
    final_info: dict[str, Any] = field(default_factory=dict)
    episode_id: str | None = None


@dataclass(slots=True, kw_only=True)
class AutoresetReady:
    """The next episode has begun by itself; the result it comes with keeps the last observation."""

    kind: Literal["autoreset_ready"] = field(default="autoreset_ready", init=False, repr=False)
    env_id: str = field(default="", repr=False)
    initial_obs: Any
    initial_info: dict[str, Any] = field(default_factory=dict)
    episode_id: str | None = None


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """The environment wants a tool run; answer with `env.respond(request_id, value)`."""

    kind: Literal["tool_call"] = field(default="tool_call", init=False, repr=False)
    env_id: str = field(default="", repr=False)
    request_id: str = ""
    """Given by the framework where the author leaves it empty."""
    tool_name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    agent_id: str | None = None
    deadline: float | None = None


@dataclass(slots=True, kw_only=True)
class LogEvent:
    """Progress, a metric or a warning. Nothing waits for it."""

    kind: Literal["log_event"] = field(default="log_event", init=False, repr=False)
    env_id: str = field(default="", repr=False)
    name: str
    payload: dict[str, Any] = field(default_factory=dict)


Request: TypeAlias = NeedAction | EpisodeEnd | AutoresetReady | ToolCall | LogEvent

KINDS: Mapping[str, type[Request]] = {
    "need_action": NeedAction,
    "episode_end": EpisodeEnd,
    "autoreset_ready": AutoresetReady,
    "tool_call": ToolCall,
    "log_event": LogEvent,
}


_FIELDS = {kind: frozenset(field.name for field in fields(cls) if field.init) for kind, cls in KINDS.items()}


def request_from_data(data: Mapping[str, Any]) -> Request:
    """Read a request back from JSON data.

    A newer peer may send more than this version knows: an unknown kind becomes a `LogEvent` that holds all of its data,
    and an unknown field is left out.
    """
    kind = data.get("kind", "")
    cls = KINDS.get(kind)
    if cls is None:
        return LogEvent(env_id=data.get("env_id", ""), name=str(kind), payload=dict(data))
    known = _FIELDS[kind]
    return cls(**{key: value for key, value in data.items() if key in known})

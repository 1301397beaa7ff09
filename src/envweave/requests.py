"""What an environment tells or asks of whoever drives it.

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
    agent_left       nobody is left to act
    invalid_action   the environment ends an episode on an illegal move
    timeout          a deadline passed
    infra_error      environment code, its machine or its connection failed: not scored
    closed           the driver gave up the episode by `reset` or `close`
"""

DEFAULT_AGENT = "agent"
"""The `agent_id` of the one agent of a single-agent environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedAction:
    """Somebody must act next; there is one of these for each agent that must.

    Frozen, because the same one comes with each step for as long as nothing about it changes.
    """

    kind: Literal["need_action"] = field(default="need_action", init=False)
    env_id: str = ""
    agent_id: str = DEFAULT_AGENT
    action_schema: dict[str, Any] | None = None
    deadline: float | None = None
    """Seconds from this request; an action that comes later ends the episode."""


@dataclass(slots=True, kw_only=True)
class EpisodeEnd:
    """Exactly once for each episode, and once for each agent that leaves before its end."""

    kind: Literal["episode_end"] = field(default="episode_end", init=False)
    env_id: str = ""
    reason: EndReason
    agent_id: str | None = None
    """The agent that left early; None where the whole episode ended."""
    final_info: dict[str, Any] = field(default_factory=dict)
    episode_id: str | None = None


@dataclass(slots=True, kw_only=True)
class AutoresetReady:
    """The next episode has begun by itself; the result it comes with keeps the last observation."""

    kind: Literal["autoreset_ready"] = field(default="autoreset_ready", init=False)
    env_id: str = ""
    initial_obs: Any
    initial_info: dict[str, Any] = field(default_factory=dict)
    episode_id: str | None = None


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """The environment wants a tool run; answer with `env.respond(request_id, value)`."""

    kind: Literal["tool_call"] = field(default="tool_call", init=False)
    env_id: str = ""
    request_id: str = ""
    """Given by the framework where the author leaves it empty."""
    tool_name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    agent_id: str | None = None
    deadline: float | None = None


@dataclass(slots=True, kw_only=True)
class LogEvent:
    """Progress, a metric or a warning. Nothing waits for it."""

    kind: Literal["log_event"] = field(default="log_event", init=False)
    env_id: str = ""
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


def request_from_data(data: Mapping[str, Any]) -> Request:
    """Read a request back from JSON data.

    A kind or a field this version does not know is no error: the kind becomes a `LogEvent` that holds
    all of it, the field is left out. A newer peer may say more than we understand.
    """
    cls = KINDS.get(data.get("kind", ""))
    if cls is None:
        return LogEvent(env_id=data.get("env_id", ""), name=str(data.get("kind")), payload=dict(data))
    known = {f.name for f in fields(cls) if f.init}
    return cls(**{key: value for key, value in data.items() if key in known})

"""Play one episode with a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from envweave.core.handle import EnvHandle
from envweave.core.sample import sample
from envweave.errors import InvalidActionError, UnsupportedError
from envweave.requests import DEFAULT_AGENT, EpisodeEnd, NeedAction, Request, ToolCall
from envweave.results import StepResult

Policy = Callable[[Any, NeedAction], Any]
"""Called with an agent's observation and the request for its action; returns the action."""

_MAX_ATTEMPTS = 200
"""Actions that a policy may propose for one step."""


@dataclass(slots=True)
class Rollout:
    """The outcome of one episode."""

    returns: dict[str, float] = field(default_factory=dict)
    """The sum of the rewards of each agent that was scored."""
    steps: int = 0
    reason: str = "unfinished"
    """As in `episode_end`; `unfinished` if `max_steps` was reached."""
    error: str = ""


def random_policy(seed: int | None = None) -> Policy:
    """A policy that draws any action that fits the schema."""
    random = Random(seed)
    return lambda _observation, need: sample(need.action_schema, random)


def rollout(env: EnvHandle[Any], policy: Policy, *, seed: int | None = None, max_steps: int = 1000) -> Rollout:
    """Play from `reset` to the end of the episode. If an action is refused, the policy is asked again, up to 200 times.

    The handle must not have autoreset. Raises what the environment and the policy raise, and the `InvalidActionError`
    of the last refused action.
    """
    played = Rollout()
    observation: Any = env.reset(seed=seed).observation
    while played.steps < max_steps:
        result = _step(env, policy, observation)
        observation = result.observation
        played.steps += 1
        _add(played.returns, result.reward)
        ends = [r for r in result.requests if isinstance(r, EpisodeEnd) and r.agent_id is None]
        if ends:
            played.reason = ends[0].reason
            error = result.info.get("error")
            played.error = str(error.get("message", "")) if isinstance(error, dict) else ""
            break
    return played


def _step(env: EnvHandle[Any], policy: Policy, observation: Any) -> StepResult[Any]:
    for attempt in range(_MAX_ATTEMPTS):
        waiting = env.pending
        calls = [request for request in waiting if isinstance(request, ToolCall)]
        if calls:
            raise UnsupportedError(f"{env.id} asks for the tool {calls[0].tool_name!r}", "drive it from Python")
        try:
            return env.step(_action(policy, observation, waiting))
        except InvalidActionError:
            if attempt + 1 == _MAX_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _action(policy: Policy, observation: Any, waiting: tuple[Request, ...]) -> Any:
    needs = [request for request in waiting if isinstance(request, NeedAction)]
    if [need.agent_id for need in needs] == [DEFAULT_AGENT]:
        return policy(observation, needs[0])
    seen: Mapping[str, Any] = observation
    return {need.agent_id: policy(seen.get(need.agent_id), need) for need in needs}


def _add(returns: dict[str, float], reward: Any) -> None:
    rewards = reward if isinstance(reward, dict) else {DEFAULT_AGENT: reward}
    for agent, value in rewards.items():
        if value is not None:
            returns[agent] = returns.get(agent, 0.0) + value

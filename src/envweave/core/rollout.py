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
"""From what an agent sees and the request for its action to the action."""

_MOST_DRAWS = 200


@dataclass(slots=True)
class Rollout:
    """What came of one episode."""

    returns: dict[str, float] = field(default_factory=dict)
    """The sum of the rewards of each agent; an agent that was never scored is not in it."""
    steps: int = 0
    reason: str = "unfinished"
    """As in `episode_end`; `unfinished` if `max_steps` came first."""
    error: str = ""


def random_policy(seed: int | None = None) -> Policy:
    """Draws any action that fits the schema."""
    random = Random(seed)
    return lambda _observation, need: sample(need.action_schema, random)


def rollout(env: EnvHandle[Any], policy: Policy, *, seed: int | None = None, max_steps: int = 1000) -> Rollout:
    """Play from `reset` to the end. An action the environment refuses is asked of the policy again, within bounds.

    The handle must not have autoreset. Raises what the environment raises.
    """
    played = Rollout()
    observation: Any = env.reset(seed=seed).observation
    while played.steps < max_steps:
        result = _answered(env, policy, observation)
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


def _answered(env: EnvHandle[Any], policy: Policy, observation: Any) -> StepResult[Any]:
    for attempt in range(_MOST_DRAWS):
        waiting = env.pending
        calls = [request for request in waiting if isinstance(request, ToolCall)]
        if calls:
            raise UnsupportedError(f"{env.id} asks for the tool {calls[0].tool_name!r}", "drive it from Python")
        try:
            return env.step(_action(policy, observation, waiting))
        except InvalidActionError:
            if attempt + 1 == _MOST_DRAWS:
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

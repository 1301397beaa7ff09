"""PettingZoo's turn-based environments (AEC) as environments with `agents` and `to_act`."""

from __future__ import annotations

from typing import Any

from envweave.results import MultiAgentStepResult, ResetResult, StepResult


def is_aec(env: Any) -> bool:
    """True for a PettingZoo `AECEnv`, whose `reset` and `step` return nothing."""
    return (
        callable(getattr(env, "last", None)) and callable(getattr(env, "observe", None)) and hasattr(env, "agent_iter")
    )


class TurnBased:
    """An AEC environment in which one agent acts per step.

    The rewards of a step are those that all agents earned in it; the caller has nothing to accumulate. A finished agent
    is removed at once: the steps with `None` that AEC requires for it are made here.
    """

    def __init__(self, aec: Any) -> None:
        self.unwrapped = aec
        self.possible_agents = list(getattr(aec, "possible_agents", ()))

    @property
    def agents(self) -> list[str]:
        aec = self.unwrapped
        ended, cut = getattr(aec, "terminations", {}), getattr(aec, "truncations", {})
        return [agent for agent in getattr(aec, "agents", ()) if not (ended.get(agent) or cut.get(agent))]

    @property
    def to_act(self) -> str:
        return self.unwrapped.agent_selection  # type: ignore[no-any-return]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult[dict[str, Any]]:
        self.unwrapped.reset(seed=seed, options=options)
        acting = self.to_act
        return ResetResult({acting: self.unwrapped.observe(acting)}, {acting: self.unwrapped.infos.get(acting, {})})

    def step(self, actions: dict[str, Any]) -> MultiAgentStepResult[Any]:
        aec = self.unwrapped
        (action,) = actions.values()
        aec.step(action)
        present = list(aec.agents)
        terminated = {agent: bool(aec.terminations[agent]) for agent in present}
        truncated = {agent: bool(aec.truncations[agent]) for agent in present}
        finished = [agent for agent in present if terminated[agent] or truncated[agent]]
        observations = {agent: aec.observe(agent) for agent in finished}
        rewards = {agent: aec.rewards[agent] for agent in present}
        infos = {agent: aec.infos.get(agent, {}) for agent in present}
        while aec.agents and (aec.terminations[aec.agent_selection] or aec.truncations[aec.agent_selection]):
            aec.step(None)
        if self.agents:
            observations[self.to_act] = aec.observe(self.to_act)
        return StepResult(observations, rewards, terminated, truncated, infos)

    def __getattr__(self, name: str) -> Any:  # spaces, state, render, close
        if name == "unwrapped" or name.startswith("__"):  # being copied: not set yet, or a question of `deepcopy`
            raise AttributeError(name)
        return getattr(self.unwrapped, name)

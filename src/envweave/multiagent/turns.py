"""PettingZoo's turn-based convention (AEC), run as an environment with `agents` and `to_act`."""

from __future__ import annotations

from typing import Any

from envweave.results import ResetResult, StepResult


def is_aec(env: Any) -> bool:
    """True for a PettingZoo `AECEnv`, whose `reset` and `step` return nothing."""
    return (
        callable(getattr(env, "last", None)) and callable(getattr(env, "observe", None)) and hasattr(env, "agent_iter")
    )


class TurnBased:
    """Plays an AEC environment one turn at a time.

    Each step's rewards are those of that step for everybody, so nothing has to be accumulated by the driver. A finished
    agent is taken out at once: the `None` steps that AEC wants for it are made here.
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

    def step(self, actions: dict[str, Any]) -> StepResult[dict[str, Any]]:
        aec = self.unwrapped
        (action,) = actions.values()
        aec.step(action)
        everybody = list(aec.agents)
        terminated = {agent: bool(aec.terminations[agent]) for agent in everybody}
        truncated = {agent: bool(aec.truncations[agent]) for agent in everybody}
        finished = [agent for agent in everybody if terminated[agent] or truncated[agent]]
        observations = {agent: aec.observe(agent) for agent in finished}
        rewards = {agent: aec.rewards[agent] for agent in everybody}
        infos = {agent: aec.infos.get(agent, {}) for agent in everybody}
        while aec.agents and (aec.terminations[aec.agent_selection] or aec.truncations[aec.agent_selection]):
            aec.step(None)
        if self.agents:
            observations[self.to_act] = aec.observe(self.to_act)
        return StepResult(observations, rewards, terminated, truncated, infos)

    def __getattr__(self, name: str) -> Any:  # spaces, state, render, close: as they are
        return getattr(self.unwrapped, name)

"""Episodes of one task, and how good each of them was in comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum, sqrt
from typing import Any, Literal, TypeAlias, overload

from envweave.errors import UsageError
from envweave.rollouts.episodes import Episode, Sample, mean
from envweave.rollouts.live import LiveEpisode
from envweave.rollouts.trees import mean_below, tree_advantages, tree_grpo_advantages

Kind: TypeAlias = Literal["mean", "grpo", "rloo"]
TreeKind: TypeAlias = Literal["tree", "tree-grpo"]
KINDS = ("mean", "grpo", "rloo", "tree", "tree-grpo")
EPSILON = 1e-4
"""Added to a standard deviation before dividing by it."""


@dataclass(slots=True, eq=False)
class Group:
    """Episodes that began alike: same task, same seed. Iterating gives its episodes."""

    number: int
    task_id: str | None
    seed: int | None
    episodes: list[Episode] = field(default_factory=list)
    same_start: bool = True
    """Whether all episodes began with the same observation. If not, the reset draws something that no seed decides."""

    @property
    def rewards(self) -> list[float | None]:
        return [episode.reward for episode in self.episodes]

    @property
    def scored(self) -> list[Episode]:
        return [episode for episode in self.episodes if episode.reward is not None]

    @property
    def mean(self) -> float | None:
        """The mean reward of what was scored; None if nothing was."""
        return mean(self.rewards)

    @overload
    def advantages(self, kind: Kind = ..., *, agent_id: str | None = ...) -> list[float | None]: ...
    @overload
    def advantages(self, kind: TreeKind, *, agent_id: str | None = ...) -> list[list[float | None]]: ...

    def advantages(self, kind: str = "mean", *, agent_id: str | None = None) -> Any:
        """How much better than the others each episode was; None for what was not scored, which no mean includes.

            mean        reward − mean
            grpo        (reward − mean) / standard deviation
            rloo        reward − mean of the others
            tree        one number for each turn: (V − V of the root) + (V − V of the parent), V being the mean
                        reward of the leaves below (TreeRL)
            tree-grpo   one number for each turn: normalized within the tree, plus over all trees (Tree-GRPO)

        With fewer than two scored episodes, all are None. `agent_id` compares the rewards of one agent.
        """
        if kind not in KINDS:
            raise UsageError(f"no advantages named {kind!r}", f"one of {', '.join(KINDS)}")
        rewards = self.rewards if agent_id is None else [episode.returns.get(agent_id) for episode in self.episodes]
        if kind == "tree":
            return tree_advantages(self.episodes, rewards)
        if kind == "tree-grpo":
            return tree_grpo_advantages(self.episodes, rewards, EPSILON)
        known = [reward for reward in rewards if reward is not None]
        if len(known) < 2:
            return [None] * len(rewards)
        center = fsum(known) / len(known)
        deviation = sqrt(fsum((reward - center) ** 2 for reward in known) / (len(known) - 1))
        scale = {"mean": 1.0, "grpo": 1 / (deviation + EPSILON), "rloo": len(known) / (len(known) - 1)}[kind]
        return [None if reward is None else (reward - center) * scale for reward in rewards]

    def samples(self, kind: Kind | TreeKind = "mean") -> list[Sample]:
        """The token sequences of all episodes that have advantages. In a tree, each drawn token is trained once.

        With the kinds that are not for trees, a turn that several leaves share has the mean of their advantages.
        """
        found: list[Sample] = []
        trained: set[int] = set()
        by_agent: dict[str | None, list[list[float | None]]] = {}
        for place, episode in enumerate(self.episodes):
            for sample in episode.samples():
                agent = sample.agent_id
                if agent not in by_agent:
                    by_agent[agent] = self._turn_advantages(kind, agent)
                values = [
                    None if id(turn) in trained else value
                    for turn, value in zip(episode.turns, by_agent[agent][place], strict=True)
                ]
                if sample.weigh(values):
                    found.append(sample)
                    trained |= {id(episode.turns[turn]) for turn in sample.turns if turn >= 0}
        return found

    def _turn_advantages(self, kind: Kind | TreeKind, agent_id: str | None) -> list[list[float | None]]:
        """One for each turn of each episode."""
        if kind == "tree" or kind == "tree-grpo":
            return self.advantages(kind, agent_id=agent_id)
        return mean_below(self.episodes, self.advantages(kind, agent_id=agent_id))

    @property
    def states(self) -> list[LiveEpisode]:
        """What `keep_states` kept, for `values`."""
        turns = {id(turn): turn for episode in self.episodes for turn in episode.turns}
        return [turn.state for turn in turns.values() if turn.state is not None]

    def close(self) -> None:
        """Release the states. Without `keep_states` there are none."""
        for state in self.states:
            state.env.sync.close()

    async def aclose(self) -> None:
        """`close` for `await`."""
        for state in self.states:
            await state.env.close()

    def __iter__(self) -> Any:
        return iter(self.episodes)

    def __len__(self) -> int:
        return len(self.episodes)

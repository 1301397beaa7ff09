"""Trees of episodes: where to branch, and what a turn in a tree is worth.

Branches share the `Turn` objects before the branch, so a turn's leaves are the episodes that contain it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, prod, sqrt
from typing import TYPE_CHECKING

from envweave.errors import UsageError

if TYPE_CHECKING:
    from envweave.rollouts.episodes import Episode

Rewards = Sequence["float | None"]


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a live episode is forked: after `at[i]` steps it continues as `width[i]` episodes.

    `Branch(at=(2, 4), width=(4, 2))` makes 8 episodes of one. An episode that ends before stays one.
    """

    at: tuple[int, ...]
    width: tuple[int, ...]

    def __init__(self, at: int | Sequence[int], width: int | Sequence[int]) -> None:
        object.__setattr__(self, "at", (at,) if isinstance(at, int) else tuple(at))
        object.__setattr__(self, "width", (width,) if isinstance(width, int) else tuple(width))
        if len(self.at) != len(self.width) or not self.at:
            raise UsageError(f"{len(self.at)} places to branch and {len(self.width)} widths", "give one width for each")
        if any(type(n) is not int or n < 0 for n in self.at) or list(self.at) != sorted(set(self.at)):
            raise UsageError(f"branches at steps {self.at}", "give rising numbers from 0")
        if any(type(n) is not int or n < 1 for n in self.width):
            raise UsageError(f"branches of widths {self.width}", "give numbers from 1")

    @property
    def leaves(self) -> int:
        """Episodes of one tree."""
        return prod(self.width)


def tree_advantages(episodes: Sequence[Episode], rewards: Rewards) -> list[list[float | None]]:
    """TreeRL: a turn's value is the mean reward of the leaves below it; it is compared with root and parent."""
    leaves = _leaves(episodes, rewards)
    roots = _by_tree(episodes, rewards)
    found: list[list[float | None]] = []
    for episode, reward in zip(episodes, rewards, strict=True):
        root = roots[episode.tree]
        below, parent = root, root
        advantages: list[float | None] = []
        for turn in episode.turns:
            if len(leaves[id(turn)]) != len(below):  # a branch: the leaves below a turn are a part of its parent's
                parent, below = below, leaves[id(turn)]
            if reward is None or len(root) < 2:
                advantages.append(None)
                continue
            value = _mean(below)
            local = value - _mean(parent) if len(parent) >= 2 else 0.0
            advantages.append(value - _mean(root) + local)
        found.append(advantages)
    return found


def tree_grpo_advantages(episodes: Sequence[Episode], rewards: Rewards, epsilon: float) -> list[list[float | None]]:
    """Tree-GRPO: a leaf is normalized within its tree and over all trees; a turn is worth the mean of its leaves."""
    everything = [reward for reward in rewards if reward is not None]
    trees = _by_tree(episodes, rewards)
    leaf: list[float | None] = []
    for episode, reward in zip(episodes, rewards, strict=True):
        parts = [
            (reward - _mean(values)) / (_deviation(values) + epsilon)
            for values in (trees[episode.tree], everything)
            if reward is not None and len(values) >= 2
        ]
        leaf.append(fsum(parts) if parts else None)
    return mean_below(episodes, leaf)


def mean_below(episodes: Sequence[Episode], values: Rewards) -> list[list[float | None]]:
    """For each turn, the mean over the leaves that have it and a value. None for the turns of a leaf that has none."""
    below = _leaves(episodes, values)
    return [
        [_mean(below[id(turn)]) if value is not None else None for turn in episode.turns]
        for episode, value in zip(episodes, values, strict=True)
    ]


def _leaves(episodes: Sequence[Episode], values: Rewards) -> dict[int, list[float]]:
    """The values of the scored leaves below each turn."""
    found: dict[int, list[float]] = defaultdict(list)
    for episode, value in zip(episodes, values, strict=True):
        for turn in episode.turns:
            if value is not None:
                found[id(turn)].append(value)
    return found


def _by_tree(episodes: Sequence[Episode], rewards: Rewards) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for episode, reward in zip(episodes, rewards, strict=True):
        if reward is not None:
            found[episode.tree].append(reward)
    return found


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    center = _mean(values)
    return sqrt(fsum((value - center) ** 2 for value in values) / (len(values) - 1))

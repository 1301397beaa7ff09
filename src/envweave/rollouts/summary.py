"""What a rollout has done so far, as numbers and as a table."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING

from envweave.errors import EnvWeaveError
from envweave.rollouts.episodes import Episode, Failure, drawn_tokens

if TYPE_CHECKING:
    from envweave.rollouts.groups import Group


@dataclass(slots=True)
class Summary:
    """Counts and times of a rollout. It changes while the rollout runs; `str` gives a table."""

    groups: int = 0
    dropped_groups: int = 0
    """Groups with fewer scored episodes than `min_group`."""
    unequal_groups: int = 0
    """Groups whose episodes began with different observations."""
    episodes: int = 0
    scored: int = 0
    running: int = 0
    attempts: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """Episodes by how they ended."""
    failures: Counter[str] = field(default_factory=Counter)
    """Attempts that failed, by cause; an episode whose next attempt succeeded counts here too."""
    refused_forks: Counter[str] = field(default_factory=Counter)
    """Branches that could not be made, by cause."""
    total_reward: float = 0.0
    """Of the scored episodes."""
    steps: int = 0
    tokens: int = 0
    """Drawn tokens."""
    model_seconds: float = 0.0
    env_seconds: float = 0.0
    wait_seconds: float = 0.0
    """Of episodes that waited for a slot, an environment or the event loop."""
    _began: float = field(default_factory=time.perf_counter)
    _ended: float | None = None

    @property
    def seconds(self) -> float:
        return (self._ended or time.perf_counter()) - self._began

    @property
    def mean_reward(self) -> float | None:
        """Over the scored episodes; None if there are none."""
        return self.total_reward / self.scored if self.scored else None

    def add_attempt(self, episode: Episode, seconds: float, env_seconds: float) -> None:
        """Count the work of an attempt, of which a branch has only its own turns."""
        turns = episode.turns[episode.parent[1] if episode.parent else 0 :]
        model = fsum(turn.model_seconds for turn in turns)
        env = env_seconds + fsum(turn.env_seconds for turn in turns)
        self.attempts += episode.parent is None
        self.steps += len({turn.step for turn in turns})
        self.tokens += sum(drawn_tokens(turn.reply) for turn in turns if turn.reply is not None)
        self.model_seconds += model
        self.env_seconds += env
        self.wait_seconds += max(0.0, seconds - model - env)

    def add_episode(self, episode: Episode) -> None:
        """Count an episode that is over, after its last attempt."""
        self.episodes += 1
        self.ends[episode.end] += 1
        reward = episode.reward
        if reward is not None:
            self.scored += 1
            self.total_reward += reward

    def add_group(self, group: Group) -> None:
        """Count a complete group."""
        self.groups += 1
        self.unequal_groups += not group.same_start

    def count_failure(self, failure: Failure) -> None:
        self.failures[failure.cause] += 1

    def refuse_fork(self, error: EnvWeaveError) -> None:
        self.refused_forks[error.code] += 1

    def stop(self) -> None:
        """End the clock; nothing runs any more."""
        self.running = 0
        self._ended = self._ended or time.perf_counter()

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, for a table."""
        mean = self.mean_reward
        seconds = max(self.seconds, 1e-9)
        busy = max(self.model_seconds + self.env_seconds + self.wait_seconds, 1e-9)
        shares = {"model": self.model_seconds, "environment": self.env_seconds, "waiting": self.wait_seconds}
        rows = [
            ("groups", f"{self.groups} complete" + _extra(dropped=self.dropped_groups, unequal=self.unequal_groups)),
            ("episodes", f"{self.episodes} done, {self.scored} scored" + _extra(**{"in flight": self.running})),
            ("mean reward", "none" if mean is None else f"{mean:.4g}"),
            ("ends", _counts(self.ends)),
            ("failed attempts", _counts(self.failures)),
            ("refused forks", _counts(self.refused_forks)),
            ("steps", _rate(self.steps, seconds)),
            ("tokens", _rate(self.tokens, seconds) if self.tokens else ""),
            ("time", ", ".join(f"{name} {spent / busy:.0%}" for name, spent in shares.items())),
            ("seconds", f"{seconds:.1f}"),
        ]
        return [(name, value) for name, value in rows if value]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _rate(count: int, seconds: float) -> str:
    rate = count / seconds
    return f"{count}, {rate:.0f}/s" if rate >= 100 else f"{count}, {rate:.1f}/s"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common())


def _extra(**counts: int) -> str:
    return "".join(f", {count} {name}" for name, count in counts.items() if count)

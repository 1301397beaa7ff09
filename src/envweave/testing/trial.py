"""One run of all checks: what they share, and what came of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from random import Random
from typing import Any, TypeAlias

from envweave.core.env_types import EnvTypes
from envweave.testing.episode import Frame, PlayedEpisode
from envweave.testing.play import Player
from envweave.testing.report import Finding, Problems, Report, SkippedError, attempt, problem_of
from envweave.testing.subject import Subject

SEEN_PER_EPISODE = 100
"""How many frames of an episode are looked at where a look is dear."""


class Trial:
    """Opens the environment once or twice, plays the episodes that all checks look at, collects findings."""

    def __init__(self, subject: Subject, *, seed: int, episodes: int, max_steps: int) -> None:
        self.subject = subject
        self.seed = seed
        self.max_steps = max_steps
        self._number = episodes
        self._players: list[Player] = []
        self._findings: list[Finding] = []
        self._passed: list[str] = []
        self._skipped: dict[str, str] = {}
        player, self.opening_error = attempt(partial(subject.open, 0))
        if player is not None:
            self._players.append(player)

    # For the checks.

    @property
    def first(self) -> Player:
        if not self._players:
            raise SkippedError("there is no environment to look at")
        return self._players[0]

    @property
    def second(self) -> Player:
        """Another instance, if there is one. Made by the check of the factory, which comes before all that need it."""
        if self.subject.single:
            raise SkippedError("needs a second instance: pass the class, a factory or an ID")
        if len(self._players) < 2:
            raise SkippedError("needs a second instance: see `factory`")
        return self._players[1]

    def open_second(self) -> Player:
        """Raise whatever the factory raises; a player on the very same environment is given back but not kept."""
        player = self.subject.open(1)
        if _innermost(player.env) is not _innermost(self.first.env):
            self._players.append(player)
        return player

    @property
    def players(self) -> list[Player]:
        return list(self._players)

    @cached_property
    def types(self) -> EnvTypes:
        return self.subject.types(self.first.env)

    @property
    def episodes(self) -> list[PlayedEpisode]:
        """The episodes played, unless the environment was played as something it is not."""
        if self.failed("agents"):
            raise SkippedError("it was played for one agent: see `agents`")
        return self.played

    @cached_property
    def played(self) -> list[PlayedEpisode]:
        """Random episodes on the first instance, each with its own seed; one that fails or gets nowhere is the last."""
        played: list[PlayedEpisode] = []
        for number in range(self._number):
            episode = self.first.play(self.seed + number, self.max_steps, Random(f"{self.seed}/{number}"))
            played.append(episode)
            if episode.failure is not None or not episode.steps:
                break  # the next would fare no better
        return played

    @property
    def frames(self) -> list[Frame]:
        """The frames of all episodes, of long ones the first hundred and the last."""
        found: list[Frame] = []
        for episode in self.episodes:
            found += episode.frames[:SEEN_PER_EPISODE]
            found += episode.frames[SEEN_PER_EPISODE:][-1:]
        if not found:
            raise SkippedError("no reset worked: see `reset`")
        return found

    @property
    def steps(self) -> list[Frame]:
        found = [frame for frame in self.frames if frame.call != "reset"]
        if not found:
            raise SkippedError("no step could be made: see the findings before this")
        return found

    @property
    def sound(self) -> PlayedEpisode:
        """The first episode, if none of them failed."""
        failed = next((episode.failure for episode in self.episodes if episode.failure is not None), None)
        if failed is not None:
            raise SkippedError(f"a {failed.call} failed: see the findings before this")
        return self.episodes[0]

    def replay(self, episode: PlayedEpisode, *, on: Player | None = None) -> PlayedEpisode:
        """The same seed and the same actions once more."""
        return (on or self.first).replay(episode.seed, episode.actions, max_steps=self.max_steps)

    def failed(self, name: str) -> bool:
        return any(finding.check == name and finding.severity == "error" for finding in self._findings)

    # For the one who runs them.

    def run(self, name: str, check: Check) -> None:
        """Do one check; an exception in it is a finding too, for it is the environment's objects that it handles."""
        problems, error = attempt(lambda: list(check(self)))
        if isinstance(error, SkippedError):
            self._skipped[name] = str(error)
            return
        if error is not None:
            problems = [problem_of(error, "see that it can be called, copied and compared", what="the environment")]
        for message, fix, severity in problems:
            self._findings.append(Finding(name, severity, message, fix))
        if not problems:
            self._passed.append(name)

    def close(self) -> None:
        """Give back what is open. It was the check's to say what is wrong with that."""
        for player in self._players:
            attempt(player.handle.close)

    def report(self) -> Report:
        return Report(self.subject.spec.id, tuple(self._findings), tuple(self._passed), dict(self._skipped))


def _innermost(env: Any) -> Any:
    """The environment within the wrappers, by Gymnasium's name for it."""
    inner = getattr(env, "unwrapped", None)
    return env if inner is None else inner


Check: TypeAlias = Callable[[Trial], Problems]
"""Yields a `Problem` for each thing that is wrong; raises `SkippedError` if there is nothing to look at."""


def by_agent(player: Player, value: Any) -> list[tuple[str, str | None, Any]]:
    """The parts of an observation: where each stands, whose it is, and what it is."""
    if player.several and isinstance(value, dict):
        return [(f"observation.{agent}", agent, part) for agent, part in value.items()]
    return [("observation", None, value)]

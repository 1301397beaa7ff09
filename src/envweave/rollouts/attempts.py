"""Plays the members of groups: an episode each, or a tree of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from math import prod
from typing import Any

from envweave.errors import CapacityError, EnvWeaveError, UnsupportedError, UsageError
from envweave.rollouts.episodes import Episode, Failure
from envweave.rollouts.groups import Group
from envweave.rollouts.live import AttemptError, LiveEpisode, Rules
from envweave.rollouts.pool import EnvPool
from envweave.rollouts.records import EpisodeRecords
from envweave.rollouts.slots import Slots
from envweave.rollouts.summary import Summary
from envweave.rollouts.trees import Branch

RETRIED = ("infra_error", "policy_error", "step_timeout")


@dataclass(frozen=True, slots=True)
class Start:
    """How the episodes of one group begin."""

    number: int
    seed: int | None
    reset: dict[str, Any]
    """The arguments of `reset`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    """What a rollout does."""

    group_size: int
    at_once: int
    fork: bool = False
    tree: Branch | None = None
    retries: int = 1
    min_group: int = 0
    unfinished_reward: float | None = 0.0
    max_dead_groups: int | None = 4
    """Groups in a row without one scored episode that stop a rollout."""
    owns_envs: bool = True
    """Whether environments are closed in the end."""


@dataclass(slots=True)
class Members:
    """A group under way."""

    start: Start
    group: Group
    left: int
    origin: asyncio.Task[LiveEpisode | AttemptError] | None = None
    """Makes the prepared state that members are forks of."""
    has_forked: bool = False
    first_observations: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class MemberAttempt:
    """One attempt of a member; in a tree, of all its leaves."""

    members: Members
    number: int
    began: float
    branches: list[asyncio.Task[None]] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    """Those that ended."""


@dataclass(slots=True)
class Attempts:
    """Plays each member until an attempt succeeds or the retries are used up."""

    plan: RolloutPlan
    rules: Rules
    pool: EnvPool
    slots: Slots
    summary: Summary
    records: EpisodeRecords | None
    spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]

    async def play(self, members: Members, number: int) -> list[Episode]:
        """The episodes of one member. It has a slot, which this gives back."""
        failures: list[Failure] = []
        began, started = time.perf_counter(), time.time()
        has_slot = True
        try:
            for count in range(1, self.plan.retries + 2):
                if not has_slot:
                    await self.slots.acquire(members.group.number)
                    has_slot = True
                attempt = MemberAttempt(members, count, began)
                episode = self._episode(members, number, count, started)
                episode.failures = failures
                await self._attempt(attempt, episode)
                if attempt.branches:
                    self.slots.release()
                    has_slot = False
                for branch in attempt.branches:  # it grows meanwhile
                    await branch
                if any(one.end not in RETRIED for one in attempt.episodes):
                    break
                if count <= self.plan.retries:
                    self._drop_states(attempt.episodes)
        finally:
            if has_slot:
                self.slots.release()
        for one in attempt.episodes:
            self.summary.add_episode(one)
        return attempt.episodes

    def _episode(self, members: Members, number: int, attempt: int, started: float) -> Episode:
        tree = self.plan.tree
        return Episode(
            members.group.number,
            number * (tree.leaves if tree else 1),
            seed=members.start.seed,
            tree=number if tree else 0,
            attempts=attempt,
            started=started,
            unfinished_reward=self.plan.unfinished_reward,
        )

    async def _attempt(self, attempt: MemberAttempt, episode: Episode) -> None:
        """Play from the beginning; with a tree, along its first path."""
        live: LiveEpisode | None = None
        begun = time.perf_counter()
        try:
            async with self._clock(episode):
                live = await self._begin(attempt.members, episode)
                if self.records is not None:
                    live.record(self.records.begin(episode, attempt.members.start.reset))
                await self._path(attempt, live, 0, begun)
        except AttemptError as failure:
            self._fail(episode, failure)
        finally:
            if live is None and self.records is not None and episode.end:
                self.records.end(self.records.begin(episode, attempt.members.start.reset), episode)
            self._end(attempt, episode, live, begun)

    async def _path(self, attempt: MemberAttempt, live: LiveEpisode, depth: int, begun: float) -> None:
        """Play to the end; at each place of the tree, start the branches that leave there."""
        tree = self.plan.tree
        for place in range(depth, len(tree.at) if tree is not None else 0):
            assert tree is not None
            if await live.play(until=tree.at[place]):
                return
            stride = prod(tree.width[place + 1 :])
            numbers = [live.episode.number + step * stride for step in range(1, tree.width[place])]
            used = time.perf_counter() - begun
            for branch in await self._branches(live, numbers):
                attempt.branches.append(self.spawn(self._branch(attempt, branch, place + 1, used)))
        try:
            await live.play()
        except AttemptError:
            await live.settle()  # its branches are forked from it
            raise

    async def _branches(self, live: LiveEpisode, numbers: list[int]) -> list[LiveEpisode]:
        """Episodes that leave here. Without a record, their policies are asked while the environment is forked."""
        await live.settle()
        branches = [live.branch(live.branched(number)) for number in numbers]
        if live.log is not None:
            for branch in branches:
                try:
                    await branch.settle()
                except (AttemptError, UnsupportedError, CapacityError):  # raised again when it is played
                    continue
                branch.log = live.log.fork(sample=branch.episode.number)
        return branches

    async def _branch(self, attempt: MemberAttempt, live: LiveEpisode, depth: int, used: float) -> None:
        """Play a branch when there is a slot. `used` are the seconds of its attempt so far."""
        forked, inherited = time.perf_counter(), live.episode.reset_seconds
        await self.slots.acquire(attempt.members.group.number)
        try:
            async with self._clock(live.episode, used):
                await self._path(attempt, live, depth, time.perf_counter() - used)
        except AttemptError as failure:
            self._fail(live.episode, failure)
        except (UnsupportedError, CapacityError) as error:
            if live.has_env:
                raise
            live.episode.end = ""  # a limit of forks: the tree continues without this branch
            self.summary.refuse_fork(error)
        finally:
            self.slots.release()
            self._end(attempt, live.episode, live, forked, inherited)

    def _clock(self, episode: Episode, used: float = 0.0) -> _Clock:
        limit = self.rules.limits.episode_timeout
        return _Clock(None if limit is None else max(0.0, limit - used))

    def _fail(self, episode: Episode, failure: AttemptError) -> None:
        episode.end = failure.end
        found = Failure.of(failure.stage, failure.error, episode.attempts)
        episode.failures.append(found)
        self.summary.count_failure(found)

    # The beginning.

    async def _begin(self, members: Members, episode: Episode) -> LiveEpisode:
        if not self.plan.fork:
            return await self._reset(members, episode)
        prepared = await self._prepared(members)
        try:
            live = await self.pool.fork(lambda: prepared.fork(episode))
        except (UnsupportedError, CapacityError) as error:
            if not members.has_forked and isinstance(error, UnsupportedError):
                raise  # it cannot fork at all
            raise AttemptError("infra_error", "fork", error) from error
        members.has_forked = True
        return live

    async def _prepared(self, members: Members) -> LiveEpisode:
        """The state that all members begin with. One that failed is prepared again for the next attempts."""
        if members.origin is None:
            members.origin = self.spawn(self._prepare(members))
        origin = members.origin
        found = await asyncio.shield(origin)
        if isinstance(found, LiveEpisode):
            return found
        if members.origin is origin:
            members.origin = None
        raise found

    async def _prepare(self, members: Members) -> LiveEpisode | AttemptError:
        try:
            live = await self._reset(members, Episode(members.group.number))
        except AttemptError as failure:
            return failure
        self.summary.env_seconds += live.episode.reset_seconds
        return live

    async def _reset(self, members: Members, episode: Episode) -> LiveEpisode:
        try:
            env = await self.pool.take()
        except UsageError:
            raise
        except EnvWeaveError as error:
            raise AttemptError("infra_error", "make", error) from error
        live = LiveEpisode(env, episode, self.rules, self.pool)
        try:
            members.first_observations.append(await live.start(**members.start.reset))
        except BaseException:
            self.pool.discard(env)
            raise
        return live

    # The end.

    def _end(
        self, attempt: MemberAttempt, episode: Episode, live: LiveEpisode | None, begun: float, inherited: float = 0.0
    ) -> None:
        """Count an episode that ended, and use its environment again unless something is wrong with it."""
        now = time.perf_counter()
        episode.seconds = now - attempt.began
        episode.wait_seconds = max(0.0, episode.seconds - episode.model_seconds - episode.env_seconds)
        if live is not None and live.has_env:
            if live.log is not None:
                EpisodeRecords.end(live.log, episode)
            is_fork = self.plan.fork or episode.parent is not None
            if episode.end and not episode.failed and not is_fork:
                self.pool.give_back(live.env)
            else:
                self.pool.discard(live.env)
        elif live is not None:
            live.abandon()
        if episode.end:
            attempt.episodes.append(episode)
            self.summary.add_attempt(episode, now - begun, episode.reset_seconds - inherited)

    def _drop_states(self, episodes: list[Episode]) -> None:
        for state in Group(0, None, None, episodes).states:
            self.pool.discard(state.env)


class _Clock:
    """A time limit for an attempt, which fails as `wall_time`."""

    def __init__(self, limit: float | None) -> None:
        self._timeout = asyncio.timeout(limit)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: Any, error: Any, tb: Any) -> None:
        try:
            await self._timeout.__aexit__(kind, error, tb)
        except TimeoutError as late:
            raise AttemptError("wall_time", "episode", late) from late

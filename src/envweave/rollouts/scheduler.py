"""Runs the episodes of a rollout: at most `at_once` of them, oldest group first, each on an environment of its own."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

from envweave.core.handle import AsyncEnvHandle
from envweave.errors import EnvWeaveError, RolloutError, UnsupportedError, UsageError
from envweave.rollouts.episodes import Episode, Failure
from envweave.rollouts.groups import Group
from envweave.rollouts.live import AttemptError, LiveEpisode, Rules
from envweave.rollouts.records import EpisodeRecords
from envweave.rollouts.summary import Summary
from envweave.rollouts.trees import Branch

CLOSE_TIMEOUT_S = 10.0
RETRIED = ("infra_error", "policy_error", "step_timeout")

OpenEnv: TypeAlias = Callable[[], Awaitable[AsyncEnvHandle[Any, Any, Any, Any]]]
FindStarts: TypeAlias = Callable[[AsyncEnvHandle[Any, Any, Any, Any]], Awaitable[Iterator["Start"]]]
"""From an environment, which knows its tasks, to how the groups begin."""


@dataclass(frozen=True, slots=True)
class Start:
    """How the episodes of one group begin."""

    number: int
    seed: int | None
    reset: dict[str, Any]
    """The arguments of `reset`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a rollout does."""

    group_size: int
    at_once: int
    fork: bool = False
    tree: Branch | None = None
    retries: int = 1
    min_group: int = 0
    unfinished_reward: float | None = 0.0
    max_dead_groups: int | None = 4
    """Groups in a row without one scored episode, from the beginning, that stop a rollout."""
    owns_envs: bool = True
    """Whether environments are closed in the end."""


@dataclass(slots=True)
class _Members:
    """A group under way."""

    start: Start
    group: Group
    left: int
    origin: asyncio.Future[LiveEpisode] | None = None
    """The prepared state that members are forks of."""
    is_preparing: bool = False
    first_observations: list[Any] = field(default_factory=list)


class Scheduler:
    """Iterating gives each group when it is complete. `close` ends everything; it may be called at any time."""

    def __init__(
        self,
        open_env: OpenEnv,
        rules: Rules,
        find_starts: FindStarts,
        plan: Plan,
        records: EpisodeRecords | None = None,
        resumed: Mapping[tuple[int, int], Episode] | None = None,
    ) -> None:
        self.summary = Summary()
        self._open_env = open_env
        self._rules = rules
        self._find_starts = find_starts
        self._plan = plan
        self._records = records
        self._resumed = resumed or {}
        self._slots = asyncio.Semaphore(plan.at_once)
        self._idle: list[AsyncEnvHandle[Any, Any, Any, Any]] = []
        self._ready: deque[Group] = deque()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closings: set[asyncio.Task[None]] = set()
        self._producer: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._dead = 0
        self._closed = False

    # Groups.

    async def groups(self) -> AsyncIterator[Group]:
        """Each group when it is complete. Raises the caller's own mistakes, and `RolloutError` if nothing works."""
        self._producer = self._spawn(self._produce())
        try:
            while True:
                while self._ready:
                    yield self._ready.popleft()
                    self._changed.set()
                if self._error is not None:
                    raise self._error
                if not self._tasks:
                    return
                self._changed.clear()
                await self._changed.wait()
        finally:
            await self.close()

    def take_ready(self) -> list[Group]:
        """The complete groups that were not given out yet."""
        taken = list(self._ready)
        self._ready.clear()
        return taken

    async def _produce(self) -> None:
        """Start episodes in order, each when there is a free slot."""
        ahead = max(2, -(-self._plan.at_once // self._plan.group_size))
        first = await self._open_first()
        self._idle.append(first)
        for start in await self._find_starts(first):
            while len(self._ready) >= ahead:  # the caller is slower than the episodes
                self._changed.clear()
                await self._changed.wait()
            group = Group(start.number, None, start.seed)
            members = _Members(start, group, self._plan.group_size)
            if self._plan.fork:
                members.origin = asyncio.get_running_loop().create_future()
            known = [
                self._resumed[key] for n in range(self._plan.group_size) if (key := (start.number, n)) in self._resumed
            ]
            group.episodes += known
            members.left -= len(known)
            if not members.left:
                await self._complete(members)
            for number in range(self._plan.group_size):
                if (start.number, number) in self._resumed:
                    continue
                await self._slots.acquire()
                self.summary.running += 1
                self._spawn(self._member(members, number))

    async def _open_first(self) -> AsyncEnvHandle[Any, Any, Any, Any]:
        """An environment to ask for its tasks. Raises what the last try raised."""
        for attempt in range(1, self._plan.retries + 1):
            try:
                return await self._open_env()
            except UsageError:
                raise
            except EnvWeaveError as error:
                self.summary.count_failure(Failure.of("make", error, attempt))
        return await self._open_env()

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and self._error is None:
            self._error = task.exception()
            for other in self._tasks:
                other.cancel()
        self._changed.set()

    async def _member(self, members: _Members, number: int) -> None:
        """One member of a group: an episode, or a tree. It has a slot."""
        try:
            episodes = await self._attempts(members, number)
        finally:
            self.summary.running -= 1
            self._slots.release()
            members.left -= 1
        members.group.episodes += episodes
        if members.left == 0:
            await self._complete(members)

    async def _complete(self, members: _Members) -> None:
        group = members.group
        if members.origin is not None and members.origin.done() and not members.origin.cancelled():
            origin = None if members.origin.exception() else members.origin.result()
            if origin is not None:
                self._idle.append(origin.env)
        group.episodes.sort(key=lambda episode: episode.number)
        group.task_id = next((episode.task_id for episode in group.episodes if episode.task_id is not None), None)
        group.same_start = all(seen == members.first_observations[0] for seen in members.first_observations)
        self.summary.add(group)
        self._dead = 0 if group.scored else self._dead + 1
        if self._dead == self._plan.max_dead_groups and not self.summary.scored:
            failure = group.episodes[-1].error
            cause = f"{failure.cause}: {failure.message}" if failure else "no episode has a reward"
            raise RolloutError(f"the first {self._dead} groups have no scored episode; the last failure: {cause}")
        if len(group.scored) >= self._plan.min_group:
            self._ready.append(group)
        else:
            self.summary.dropped_groups += 1
            for state in group.states:
                self._abandon(state.env)
        self._changed.set()

    # Episodes.

    async def _attempts(self, members: _Members, number: int) -> list[Episode]:
        """Play until an attempt succeeds or the retries are used up."""
        failures: list[Failure] = []
        began, started = time.perf_counter(), time.time()
        for attempt in range(1, self._plan.retries + 2):
            episode = Episode(
                members.group.number,
                number * (self._plan.tree.leaves if self._plan.tree else 1),
                seed=members.start.seed,
                tree=number if self._plan.tree else 0,
                attempts=attempt,
                started=started,
                unfinished_reward=self._plan.unfinished_reward,
            )
            episode.failures = failures
            played = await self._attempt(members, episode)
            for one in played:
                one.seconds = time.perf_counter() - began
                one.wait_seconds = max(0.0, one.seconds - one.model_seconds - one.env_seconds)
            if any(one.end not in RETRIED for one in played):
                break
        return played

    async def _attempt(self, members: _Members, episode: Episode) -> list[Episode]:
        """One attempt on an environment of its own; with a tree, all its leaves."""
        live: LiveEpisode | None = None
        try:
            async with asyncio.timeout(self._rules.limits.episode_timeout) as clock:
                live = await self._begin(members, episode)
                if self._records is not None:
                    live.record(self._records.begin(episode, members.start.reset))
                return await self._grow(live, 0)
        except AttemptError as failure:
            self._fail(episode, failure.end, failure.stage, failure.error)
        except TimeoutError as error:
            if not clock.expired():
                raise
            self._fail(episode, "wall_time", "episode", error)
        finally:
            if live is not None:
                self._end(live)
            elif self._records is not None and episode.end:
                self._records.end(self._records.begin(episode, members.start.reset), episode)
        return [episode]

    def _fail(self, episode: Episode, end: str, stage: str, error: BaseException) -> None:
        episode.end = end
        failure = Failure.of(stage, error, episode.attempts)
        episode.failures.append(failure)
        self.summary.count_failure(failure)

    async def _begin(self, members: _Members, episode: Episode) -> LiveEpisode:
        origin = members.origin
        if origin is None:
            return await self._reset(members, episode)
        if not members.is_preparing:
            members.is_preparing = True
            try:
                origin.set_result(await self._reset(members, Episode(episode.group)))
            except BaseException as error:
                origin.set_exception(error if isinstance(error, Exception) else RuntimeError("cancelled"))
                origin.exception()  # it is known
                raise
        prepared = await asyncio.shield(origin) if not origin.done() or origin.exception() is None else None
        if prepared is None:  # the prepared state failed: a member of its own
            return await self._reset(members, episode)
        return await self._fork(prepared, episode)

    async def _fork(self, live: LiveEpisode, episode: Episode) -> LiveEpisode:
        try:
            return await live.fork(episode)
        except UnsupportedError:
            raise
        except EnvWeaveError as error:
            raise AttemptError("infra_error", "fork", error) from error

    async def _reset(self, members: _Members, episode: Episode) -> LiveEpisode:
        try:
            env = self._idle.pop() if self._idle else await self._open_env()
        except UsageError:
            raise
        except EnvWeaveError as error:
            raise AttemptError("infra_error", "make", error) from error
        live = LiveEpisode(env, episode, self._rules)
        try:
            members.first_observations.append(await live.start(**members.start.reset))
        except BaseException:
            self._abandon(env)
            raise
        return live

    async def _grow(self, live: LiveEpisode, depth: int) -> list[Episode]:
        """Play to the end; at each place of the tree, continue as several episodes."""
        tree = self._plan.tree
        if tree is None or depth == len(tree.at):
            await live.play()
            return [live.episode]
        if await live.play(until=tree.at[depth]):
            return [live.episode]
        stride = prod(tree.width[depth + 1 :])
        numbers = [live.episode.number + place * stride for place in range(1, tree.width[depth])]
        branches = []
        for fork in await live.fork_all([live.branched(number) for number in numbers]):
            if isinstance(fork, LiveEpisode):
                if live.log is not None:
                    fork.log = live.log.fork(sample=fork.episode.number)
                branches.append(self._spawn(self._branch(fork, depth + 1)))
            else:  # a limit of forks, or one that failed: the tree continues without it
                self.summary.refuse_fork(fork)
        try:
            own = await self._grow(live, depth + 1)
        except AttemptError as failure:
            self._fail(live.episode, failure.end, failure.stage, failure.error)
            own = [live.episode]
        grown = await asyncio.gather(*branches)
        return [*own, *(episode for episodes in grown for episode in episodes)]

    async def _branch(self, live: LiveEpisode, depth: int) -> list[Episode]:
        async with self._slots:
            try:
                return await self._grow(live, depth)
            except AttemptError as failure:
                self._fail(live.episode, failure.end, failure.stage, failure.error)
                return [live.episode]
            finally:
                self._end(live)

    # Environments.

    def _end(self, live: LiveEpisode) -> None:
        """Use the environment again, unless something is wrong with it."""
        if live.log is not None:
            EpisodeRecords.end(live.log, live.episode)
        is_fork = self._plan.fork or live.episode.parent is not None
        if live.episode.end and not live.episode.failed and not is_fork and not self._closed:
            self._idle.append(live.env)
        else:
            self._abandon(live.env)

    def _abandon(self, env: AsyncEnvHandle[Any, Any, Any, Any]) -> None:
        """Close it without waiting: a local step that hangs cannot be cancelled."""
        if not self._plan.owns_envs:
            self._idle.append(env)
            return
        closing = asyncio.ensure_future(self._close_env(env))
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)

    async def close(self) -> None:
        """Cancel all episodes and close all environments."""
        if self._closed:
            return
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        idle = self._idle if self._plan.owns_envs else []
        await asyncio.gather(*map(self._close_env, idle), *self._closings)
        self._idle.clear()
        self.summary.stop()
        if self._records is not None:
            self._records.close()

    async def _close_env(self, env: AsyncEnvHandle[Any, Any, Any, Any]) -> None:
        try:
            await asyncio.wait_for(env.close(), CLOSE_TIMEOUT_S)
        except (EnvWeaveError, TimeoutError) as error:
            self.summary.count_failure(Failure.of("close", error, 1))

"""Runs the episodes of a rollout: at most `at_once` of them, oldest group first, each on an environment of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeAlias

from envweave.core.handle import AsyncEnvHandle
from envweave.errors import EnvWeaveError, RolloutError, UsageError
from envweave.rollouts.attempts import Attempts, Members, RolloutPlan, Start
from envweave.rollouts.episodes import Episode, Failure
from envweave.rollouts.groups import Group
from envweave.rollouts.live import LiveEpisode, Rules
from envweave.rollouts.pool import EnvOpener, EnvPool
from envweave.rollouts.records import EpisodeRecords
from envweave.rollouts.slots import Slots
from envweave.rollouts.summary import Summary

FindStarts: TypeAlias = Callable[[AsyncEnvHandle[Any, Any, Any, Any]], Awaitable[Iterator[Start]]]
"""From an environment, which knows its tasks, to how the groups begin."""


class Scheduler:
    """Iterating gives each group when it is complete. `close` ends everything; it may be called at any time."""

    def __init__(
        self,
        open_env: EnvOpener,
        rules: Rules,
        find_starts: FindStarts,
        plan: RolloutPlan,
        records: EpisodeRecords | None = None,
        resumed: Mapping[tuple[int, int], Episode] | None = None,
    ) -> None:
        self.summary = Summary()
        self._find_starts = find_starts
        self._plan = plan
        self._records = records
        self._resumed = resumed or {}
        self._slots = Slots(plan.at_once, self.summary)
        # In a tree, what waits for a slot has environments already: nothing may wait for these with a slot.
        self._pool = EnvPool(open_env, owns_envs=plan.owns_envs, waits=plan.tree is None)
        self._attempts = Attempts(plan, rules, self._pool, self._slots, self.summary, records, self._spawn)
        self._ready: deque[Group] = deque()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._error: BaseException | None = None
        self._dead = 0
        self._closing: asyncio.Task[None] | None = None

    # Groups.

    async def groups(self) -> AsyncIterator[Group]:
        """Each group when it is complete. Raises the caller's own mistakes, and `RolloutError` if nothing works."""
        self._spawn(self._produce())
        try:
            while True:
                while self._ready:
                    yield self._given_out(self._ready.popleft())
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
        taken = [self._given_out(group) for group in self._ready]
        self._ready.clear()
        return taken

    def _given_out(self, group: Group) -> Group:
        """Its states are the caller's from now on."""
        for state in group.states:
            self._pool.release(state.env)
        return group

    async def _produce(self) -> None:
        """Start episodes in order, each when there is a free slot."""
        ahead = max(2, -(-self._plan.at_once // self._plan.group_size))
        first = await self._open_first()
        self._pool.give_back(first)
        for start in await self._find_starts(first):
            while len(self._ready) >= ahead:  # the caller is slower than the episodes
                self._changed.clear()
                await self._changed.wait()
            members = Members(start, Group(start.number, None, start.seed), self._plan.group_size)
            numbers = self._take_recorded(members)
            if not numbers:
                self._complete(members)
            for number in numbers:
                await self._slots.acquire(start.number)
                self._spawn(self._member(members, number))

    def _take_recorded(self, members: Members) -> list[int]:
        """Add the episodes that a record has. Returns the numbers of the others."""
        missing: list[int] = []
        for number in range(self._plan.group_size):
            known = self._resumed.get((members.start.number, number))
            if known is None:
                missing.append(number)
            else:
                members.group.episodes.append(known)
                members.left -= 1
                self.summary.add_episode(known)
        return missing

    async def _open_first(self) -> AsyncEnvHandle[Any, Any, Any, Any]:
        """An environment to ask for its tasks. Raises what the last try raised."""
        for attempt in range(1, self._plan.retries + 1):
            try:
                return await self._pool.take()
            except UsageError:
                raise
            except EnvWeaveError as error:
                self.summary.count_failure(Failure.of("make", error, attempt))
        return await self._pool.take()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
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

    async def _member(self, members: Members, number: int) -> None:
        members.group.episodes += await self._attempts.play(members, number)
        members.left -= 1
        if members.left == 0:
            self._complete(members)

    def _complete(self, members: Members) -> None:
        group = members.group
        self._end_origin(members)
        group.episodes.sort(key=lambda episode: episode.number)
        group.task_id = next((episode.task_id for episode in group.episodes if episode.task_id is not None), None)
        group.same_start = all(seen == members.first_observations[0] for seen in members.first_observations)
        self.summary.add_group(group)
        self._check_alive(group)
        if len(group.scored) >= self._plan.min_group:
            self._ready.append(group)
        else:
            self.summary.dropped_groups += 1
            for state in group.states:
                self._pool.discard(state.env)
        self._changed.set()

    def _end_origin(self, members: Members) -> None:
        """Use the environment of the prepared state again."""
        if members.origin is None:
            return
        if not members.origin.done():  # no member could wait for it any longer
            members.origin.cancel()
        elif not members.origin.cancelled() and isinstance(found := members.origin.result(), LiveEpisode):
            self._pool.give_back(found.env)

    def _check_alive(self, group: Group) -> None:
        """Raise `RolloutError` after too many groups in a row of which nothing came."""
        has_failed = all(episode.failed for episode in group.episodes)
        self._dead = 0 if group.scored or (self.summary.scored and not has_failed) else self._dead + 1
        if self._plan.max_dead_groups is None or self._dead < self._plan.max_dead_groups:
            return
        failure = group.episodes[-1].error
        cause = f"{failure.cause}: {failure.message}" if failure else "no episode has a reward"
        which = "the last" if self.summary.scored else "the first"
        raise RolloutError(f"{which} {self._dead} groups have no scored episode; the last failure: {cause}")

    async def close(self) -> None:
        """Cancel all episodes and close all environments. A caller that is cancelled waits nevertheless."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        cancelled: asyncio.CancelledError | None = None
        while not self._closing.done():
            try:
                await asyncio.shield(self._closing)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pool.close()
        for failure in self._pool.failures:
            self.summary.count_failure(failure)
        self.summary.stop()
        if self._records is not None:
            self._records.close()

"""Monte-Carlo values: what a state is worth, found by playing on from it several times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import fsum
from typing import Any

from envweave.errors import EnvWeaveError, UsageError
from envweave.rollouts.episodes import mean
from envweave.rollouts.iterator import LOOP
from envweave.rollouts.limits import Limits
from envweave.rollouts.live import AttemptError, LiveEpisode, Rules
from envweave.rollouts.policies import policies_of
from envweave.rollouts.pool import EnvPool


def values(
    states: Sequence[LiveEpisode], policy: Any, k: int = 8, *, at_once: int = 64, **limits: Any
) -> list[float | None]:
    """The mean reward that `policy` earns from each state on, over `k` continuations; None if none was scored.

        for group in ew.rollout("codeact", model, keep_states=True):
            states = [turn.state for turn in group.episodes[0].turns]
            print(ew.values(states, model, k=8, max_turns=8))
            group.close()

    The states stay as they are. Rewards that were paid before the state do not count. A continuation that fails is
    left out. `limits` are those of `rollout`, `max_turns` being counted from the beginning of the episode.
    """
    return LOOP.run(async_values(states, policy, k, at_once=at_once, **limits))


async def async_values(
    states: Sequence[LiveEpisode], policy: Any, k: int = 8, *, at_once: int = 64, **limits: Any
) -> list[float | None]:
    """`values` for `await`."""
    if type(k) is not int or k < 1:
        raise UsageError(f"k is {k!r}", "use a whole number from 1")
    if not all(isinstance(state, LiveEpisode) for state in states):
        raise UsageError("a state is missing", "play with keep_states=True; a limit of forks may have been reached")
    rules = Rules(policies_of(policy), Limits(**limits))
    slots, pool = asyncio.Semaphore(at_once), EnvPool()

    async def one(state: LiveEpisode, number: int) -> float | None:
        """What a continuation earns."""
        episode = state.branched(number)
        async with slots:
            try:
                live = await pool.fork(lambda: state.fork(episode, rules, pool))
            except (EnvWeaveError, AttemptError):
                return None
            try:
                await live.play()
            except AttemptError:
                return None
            finally:
                pool.discard(live.env)
        agents = episode.returns  # the reward of several agents is their mean
        earned = fsum(state.episode.totals.get(agent, 0.0) for agent in agents) / len(agents)
        return None if episode.reward is None else episode.reward - earned

    async def worth(state: LiveEpisode) -> float | None:
        return mean(await asyncio.gather(*(one(state, number) for number in range(k))))

    work = [asyncio.ensure_future(worth(state)) for state in states]
    try:
        return await asyncio.gather(*work)
    finally:
        for each in work:
            each.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await pool.close()

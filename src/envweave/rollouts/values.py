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
    slots = asyncio.Semaphore(at_once)

    async def worth(state: LiveEpisode) -> float | None:
        episodes = [state.branched(number) for number in range(k)]
        earned = fsum(total for total in state.episode.totals.values())
        forks = await state.fork_all(episodes, rules)
        return mean(await asyncio.gather(*(_played_on(fork, slots, earned) for fork in forks)))

    return await asyncio.gather(*(worth(state) for state in states))


async def _played_on(live: LiveEpisode | EnvWeaveError, slots: asyncio.Semaphore, earned: float) -> float | None:
    """The reward of one continuation."""
    if isinstance(live, EnvWeaveError):
        return None
    try:
        async with slots:
            await live.play()
        return None if live.episode.reward is None else live.episode.reward - earned
    except AttemptError:
        return None
    finally:
        await live.env.close()

"""A rollout that is cancelled, interrupted, dropped, or not alone leaves nothing running and loses nothing."""

import asyncio
import gc
import threading
import tracemalloc

import pytest

import envweave as ew
from envweave.errors import RolloutError

COUNTING = threading.Lock()


class Steps(ew.Environment[int, int]):
    """Three steps that pay 1. Counts its instances, forks included."""

    open_now = 0

    def __init__(self) -> None:
        self.left = 3
        with COUNTING:
            type(self).open_now += 1

    def reset(self, *, seed: int | None = None) -> int:
        self.left = 3
        return 0

    def step(self, action: int):
        self.left -= 1
        return 0, 1.0, self.left == 0, False, {}

    def fork(self) -> "Steps":
        twin = type(self)()
        twin.left = self.left
        return twin

    def close(self) -> None:
        with COUNTING:
            type(self).open_now -= 1


class AsyncSteps(ew.AsyncEnvironment[int, int]):
    """The same with awaits everywhere, so that a rollout can be cancelled in each call."""

    open_now = 0

    def __init__(self) -> None:
        self.left = 3
        with COUNTING:
            type(self).open_now += 1

    async def reset(self, *, seed: int | None = None) -> int:
        await asyncio.sleep(0)
        self.left = 3
        return 0

    async def step(self, action: int):
        await asyncio.sleep(0)
        self.left -= 1
        return 0, 1.0, self.left == 0, False, {}

    async def fork(self) -> "AsyncSteps":
        await asyncio.sleep(0)
        twin = type(self)()
        twin.left = self.left
        return twin

    async def close(self) -> None:
        await asyncio.sleep(0)
        with COUNTING:
            type(self).open_now -= 1


@pytest.fixture(params=[Steps, AsyncSteps])
def steps(request):
    """A class of its own, so that each test counts its own instances."""
    return type("Counted", (request.param,), {"open_now": 0})


async def one(observation, request):
    await asyncio.sleep(0)
    return 1


@pytest.mark.parametrize(
    "options",
    [
        {"group_size": 3},
        {"group_size": 3, "start": "fork"},
        {"tree": ew.Branch(at=(1, 2), width=(3, 2))},
        {"group_size": 2, "keep_states": True},
    ],
    ids=["groups", "forks", "trees", "states"],
)
def test_a_rollout_may_be_cancelled_at_every_await(steps, options):
    async def play(got):
        async for group in ew.aio.rollout(steps, one, 2, at_once=4, **options):
            got.append(group)

    async def main(turns):
        """Cancel after so many turns of the loop. Returns whether the rollout had ended before."""
        got = []
        task = asyncio.ensure_future(play(got))
        for _ in range(turns):
            await asyncio.sleep(0)
            if task.done():
                break
        ended = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        for group in got:
            await group.aclose()
        assert ended == (len(got) == 2 and not task.cancelled())
        return ended

    for turns in range(400):
        ended = asyncio.run(main(turns))
        while steps.open_now and threading.active_count() > 1:  # a call that was cancelled ends on its thread
            asyncio.run(asyncio.sleep(0))
            if all(not thread.name.startswith("envweave-call") for thread in threading.enumerate()):
                break
        assert steps.open_now == 0, f"after {turns} turns of the loop"
        if ended:
            return
    assert issubclass(steps, Steps), "the rollout did not end"  # threads may need any number of turns


def test_a_second_cancellation_does_not_keep_environments_open(steps):
    async def main():
        played = ew.aio.rollout(steps, one, 50, group_size=2, at_once=2)
        await anext(played)
        closing = asyncio.ensure_future(played.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await played.aclose()
        return steps.open_now

    assert asyncio.run(main()) == 0


def test_leaving_the_loop_over_groups_early_closes_everything():
    async def main():
        async with ew.aio.rollout(AsyncSteps, one, 50, group_size=2) as played:
            async for _ in played:
                break
        return AsyncSteps.open_now

    assert asyncio.run(main()) == 0


def test_two_rollouts_run_at_once_and_each_has_its_own_groups(steps):
    first = ew.rollout(steps, one, range(20), group_size=2, progress=False)
    second = ew.rollout(steps, one, range(100, 120), group_size=2, progress=False)
    seeds = [(a.seed, b.seed) for a, b in zip(first, second, strict=True)]
    assert sorted(a for a, _ in seeds) == list(range(20))
    assert sorted(b for _, b in seeds) == list(range(100, 120))
    first.close(), second.close()
    assert steps.open_now == 0


def test_a_rollout_can_be_iterated_by_code_that_an_event_loop_runs(steps):
    async def main():
        return [group.mean for group in ew.rollout(steps, one, 3, group_size=2)]

    assert asyncio.run(main()) == [3.0] * 3


def test_a_rollout_stops_if_groups_in_a_row_fail_though_others_succeeded(steps):
    class Dies(steps):
        played = 0

        def __init__(self):
            if type(self).played >= 12:
                raise OSError("the machine is gone")
            super().__init__()

    def policy(observation):
        Dies.played += 1
        if Dies.played > 12:
            raise OSError("the machine is gone")
        return 1

    played = ew.rollout(Dies, policy, 1000, group_size=2, at_once=1)
    got = []
    with pytest.raises(RolloutError, match=r"the last 4 groups.*the machine is gone"):
        got.extend(iter(played))
    assert [group.mean for group in got][:2] == [3.0, 3.0]
    assert Dies.open_now == 0


def test_the_memory_of_a_rollout_does_not_grow_with_its_episodes():
    played = iter(ew.rollout(Steps, lambda _: 1, 500, group_size=4, at_once=16))

    def traced(groups):
        for _ in range(groups):
            assert len(next(played).scored) == 4
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        begun, half, end = traced(20), traced(240), traced(239)
    finally:
        tracemalloc.stop()
    assert end - half < max(50_000, half - begun)
    assert len(list(played)) == 1

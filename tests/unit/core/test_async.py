"""Async environments, and the two faces of every handle."""

import asyncio

import pytest

import envweave as ew
from envweave.errors import ResetNeededError, UsageError
from envweave.types import Observation


class Async(ew.AsyncEnvironment):
    """Counts, and tells on which loop it runs."""

    def __init__(self):
        self.loops = set()
        self.closed = 0

    async def reset(self, *, seed=None):
        self.loops.add(id(asyncio.get_running_loop()))
        self.value = seed or 0
        return self.value

    async def step(self, action: int):
        self.loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0)
        if action < 0:
            raise ValueError("negative")
        self.value += action
        return self.value, float(action), self.value >= 10, False, {}

    async def close(self):
        self.closed += 1


def test_an_async_environment_is_used_like_any_other_from_sync_code():
    env = Async()
    with ew.adapt(env, autoreset=True) as handle:
        assert handle.reset(seed=3).obs == 3
        assert handle.step(4).reward == 4.0
        with pytest.raises(ew.InvalidActionError):
            handle.step("x")
        done = handle.step(5)
        assert [request.kind for request in done.requests] == ["episode_end", "autoreset_ready", "need_action"]
    assert env.closed == 1
    assert len(env.loops) == 1


def test_an_async_environment_runs_on_the_callers_loop_through_aio():
    async def main():
        env = Async()
        async with ew.adapt(env).aio as handle:
            await handle.reset()
            assert (await handle.step(2)).obs == 2
            with pytest.raises(ew.EnvError, match="negative"):
                await handle.step(-1)
            with pytest.raises(ResetNeededError):
                await handle.step(1)
        assert env.loops == {id(asyncio.get_running_loop())}
        assert env.closed == 1

    asyncio.run(main())


def test_both_faces_of_one_handle_stay_on_one_loop():
    env = Async()
    handle = ew.adapt(env)
    handle.reset()

    async def main():
        return (await handle.aio.step(3)).obs

    assert asyncio.run(main()) == 3
    assert handle.step(1).obs == 4
    assert len(env.loops) == 1


def test_a_sync_call_inside_the_environments_own_loop_is_refused_instead_of_hanging():
    class Reentrant(Async):
        handle = None

        async def step(self, action: int):
            try:
                self.handle.state()
            except UsageError as error:
                return str(error)
            return "it hung"

    env = Reentrant()
    handle = Reentrant.handle = ew.adapt(env)
    handle.reset()
    assert "await env.aio" in handle.step(1).obs


def test_a_cancelled_step_ends_the_episode():
    class Slow(Async):
        async def step(self, action: int):
            await asyncio.Event().wait()

    async def main():
        handle = ew.adapt(Slow()).aio
        await handle.reset()
        task = asyncio.ensure_future(handle.step(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ResetNeededError):
            await handle.step(1)
        assert (await handle.reset()).obs == 0

    asyncio.run(main())


def test_hundreds_of_async_environments_step_together_on_one_loop():
    arrived = []

    class Meeting(Async):
        async def step(self, action: int):
            arrived.append(self)
            while len(arrived) < 200:
                await asyncio.sleep(0)
            return Observation(reward=1.0, done=True)

    async def main():
        handles = [ew.adapt(Meeting()).aio for _ in range(200)]
        await asyncio.gather(*(handle.reset() for handle in handles))
        results = await asyncio.gather(*(handle.step(1) for handle in handles))
        assert sum(result.reward for result in results) == 200.0

    asyncio.run(main())


def test_a_sync_environment_can_be_awaited():
    async def main():
        async with ew.make("counter").aio as handle:
            await handle.reset()
            result = await handle.step({"delta": 2})
            assert (result.reward, (await handle.state()).step_count) == (2.0, 1)
            twin = await handle.fork()
            assert (await twin.step({"delta": 1})).done

    asyncio.run(main())


def test_an_async_environment_can_be_a_slot_of_a_vector():
    ew.register("async-slot", Async, overwrite=True)
    for backend in ("inproc", "thread"):
        with ew.make_vector("async-slot", 3, backend=backend) as vector:
            assert vector.reset(seed=1).obs == [1, 2, 3]
            assert vector.step([1, 1, 1]).obs == [2, 3, 4]


def test_a_sync_call_in_the_loop_that_holds_the_environment_is_refused_and_works_when_that_loop_is_gone():
    handle = ew.adapt(Async())

    async def main():
        await handle.aio.reset()
        with pytest.raises(UsageError, match="own event loop"):
            handle.step(1)

    asyncio.run(main())
    assert handle.step(1).obs == 1


def test_a_loop_that_stands_still_does_not_hold_up_a_sync_call():
    handle = ew.adapt(Async())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(handle.aio.reset())
    assert handle.step(2).obs == 2
    loop.close()


def test_the_end_of_a_cancelled_step_is_told_with_the_next_reset():
    class Slow(Async):
        async def step(self, action: int):
            await asyncio.Event().wait()

    async def main():
        handle = ew.adapt(Slow()).aio
        await handle.reset()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle.step(1), 0.01)
        return [request.kind for request in (await handle.reset()).requests]

    assert asyncio.run(main()) == ["episode_end", "need_action"]


def test_a_handle_closed_during_a_step_stays_closed():
    class Slow(Async):
        async def step(self, action: int):
            while not self.closed:
                await asyncio.sleep(0)
            return 0

    async def main():
        handle = ew.adapt(Slow()).aio
        await handle.reset()
        step = asyncio.ensure_future(handle.step(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [request.reason for request in await handle.close()] == ["closed"]
        with pytest.raises(ew.errors.ClosedError):
            await step
        with pytest.raises(ew.errors.ClosedError):
            await handle.step(1)

    asyncio.run(main())


def test_an_async_environment_keeps_its_types_and_its_agents_in_a_vector():
    class Typed(ew.AsyncEnvironment[int, int]):
        async def reset(self):
            return 0

        async def step(self, action):
            return action

    class Team(ew.AsyncEnvironment):
        agents: list[str]

        async def reset(self):
            self.agents = ["a", "b"]
            return {"a": 0, "b": 0}

        async def step(self, actions):
            return actions, {}, {}, {}, {}

    ew.register("typed-async", Typed, overwrite=True)
    ew.register("team-async", Team, overwrite=True)
    with ew.make_vector(["typed-async", "team-async"]) as vector:
        asked = [[request.agent_id for request in row] for row in vector.reset().requests]
        assert asked == [["agent"], ["a", "b"]]
        with pytest.raises(ew.InvalidActionError, match="environment 0"):
            vector.step(["x", {"a": 1, "b": 1}])


def test_an_environment_with_only_its_reset_async_is_awaited():
    class Half:
        async def reset(self):
            return "awaited"

        def step(self, action):
            return "called"

    handle = ew.adapt(Half())
    assert (handle.reset().obs, handle.step(0).obs) == ("awaited", "called")


def test_closing_in_the_middle_of_a_reset_tells_each_end_once():
    class Slow(Async):
        async def reset(self, *, seed=None):
            if seed:
                await asyncio.Event().wait()
            return await super().reset()

    async def main():
        handle = ew.adapt(Slow()).aio
        await handle.reset()
        again = asyncio.ensure_future(handle.reset(seed=1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        told = [request.reason for request in await handle.close()]
        again.cancel()
        return told

    assert asyncio.run(main()) == ["closed"]

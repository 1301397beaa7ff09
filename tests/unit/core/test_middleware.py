"""Middleware around the calls of a handle."""

import asyncio
import gc

import pytest

import envweave as ew
from envweave.errors import EnvError, UsageError


class Count(ew.Environment[int, int]):
    """Adds up; its first resets fail."""

    def __init__(self, failures=0):
        self.failures = failures
        self.total = 0
        self.closed = 0

    def reset(self, *, seed=None):
        if self.failures:
            self.failures -= 1
            raise OSError("not yet")
        self.total = seed or 0
        return self.total

    def step(self, action):
        self.total += action
        return self.total, 1.0, False, False, {}

    def close(self):
        self.closed += 1


class AsyncCount(ew.AsyncEnvironment[int, int]):
    """The same for `await`."""

    def __init__(self, failures=0):
        self.inner = Count(failures)

    async def reset(self, *, seed=None):
        return self.inner.reset(seed=seed)

    async def step(self, action):
        return self.inner.step(action)


def recording(into):
    def record(kind, data):
        reply = yield kind, data
        into.append((kind, data, getattr(reply, "obs", None)))
        return reply

    return record


def retry_reset(kind, data):
    while True:
        try:
            return (yield kind, data)
        except EnvError:
            if kind != "reset":
                raise


def limit(steps):
    left = [steps]

    def count(kind, data):
        if kind == "step":
            if not left[0]:
                raise UsageError("the limit is reached")
            left[0] -= 1
        return (yield kind, data)

    return count


def play(env):
    """A reset, two steps and a refused third one, by sync calls."""
    observations = [env.reset(seed=5).obs, env.step(1).obs, env.step(2).obs]
    with pytest.raises(UsageError, match="the limit is reached"):
        env.step(3)
    return observations


async def play_async(env):
    observations = [(await env.reset(seed=5)).obs, (await env.step(1)).obs, (await env.step(2)).obs]
    with pytest.raises(UsageError, match="the limit is reached"):
        await env.step(3)
    return observations


@pytest.mark.parametrize("kind", [Count, AsyncCount])
@pytest.mark.parametrize("awaited", [False, True])
def test_recording_retries_and_limits_work_for_sync_and_async_environments_called_or_awaited(kind, awaited):
    seen = []
    with ew.adapt(kind(failures=2)).with_middleware(recording(seen), retry_reset, limit(2)) as env:
        observations = asyncio.run(play_async(env.aio)) if awaited else play(env)
    assert observations == [5, 6, 8]
    assert seen[:3] == [("reset", {"seed": 5}, 5), ("step", 1, 6), ("step", 2, 8)]


def test_the_first_middleware_is_the_outermost():
    order = []

    def named(name):
        def note(kind, data):
            order.append(f"{name} before {data}")
            reply = yield kind, data + 1
            order.append(f"{name} after {reply.obs}")
            return reply

        return note

    env = ew.adapt(Count())
    env.reset()
    assert env.with_middleware(named("a"), named("b")).step(1).obs == 3
    assert order == ["a before 1", "b before 2", "b after 3", "a after 3"]
    assert env.with_middleware(named("c")).with_middleware(named("d")).step(1).obs == 6
    assert order[4:] == ["d before 1", "c before 2", "c after 6", "d after 6"]


def test_middleware_may_make_several_calls_or_none():
    def twice(kind, data):
        if kind == "state":
            return "made up"
            yield
        if kind == "step":
            yield kind, data
        return (yield kind, data)

    with ew.adapt(Count()).with_middleware(twice) as env:
        env.reset()
        assert env.step(2).obs == 4
        assert env.state() == "made up"
        assert env.unwrapped.total == 4


def test_an_exception_passes_through_middleware_and_may_be_replaced():
    seen = []

    def watch(kind, data):
        try:
            return (yield kind, data)
        except UsageError as error:
            seen.append(type(error).__name__)
            raise

    def replace(kind, data):
        try:
            return (yield kind, data)
        except UsageError:
            return None

    env = ew.adapt(Count())
    with pytest.raises(ew.errors.ResetNeededError):
        env.with_middleware(watch).step(1)
    assert seen == ["ResetNeededError"]
    assert env.with_middleware(replace).step(1) is None
    assert env.with_middleware(replace, watch).step(1) is None
    assert seen == ["ResetNeededError"] * 2


def test_a_fork_keeps_the_middleware():
    seen = []
    with ew.adapt(Count()).with_middleware(recording(seen)) as env:
        env.reset()
        with env.fork() as twin, twin.fork() as third:
            assert (twin.step(3).obs, third.step(5).obs, env.step(1).obs) == (3, 5, 1)
    assert [kind for kind, _, _ in seen] == ["reset", "fork", "fork", "step", "step", "step", "close", "close", "close"]


def test_closing_a_handle_with_middleware_closes_the_environment_once():
    made = Count()
    env = ew.adapt(made)
    with env.with_middleware(retry_reset) as wrapped:
        wrapped.reset()
    assert made.closed == 1
    assert env.close() == ()
    assert made.closed == 1


def test_a_handle_with_middleware_shows_the_environment():
    made = Count()
    env = ew.adapt(made).with_middleware(retry_reset)
    assert env.unwrapped is made
    assert env.action_schema() == {"type": "integer"}
    env.transform = lambda observation: observation * 10
    env.reset()
    assert env.step(1).obs == 10
    assert env.pending[0].kind == "need_action"


class Hanging(AsyncCount):
    async def step(self, action):
        await asyncio.Event().wait()


def test_a_cancelled_call_is_raised_in_each_middleware_and_ends_its_generators():
    seen = []

    def named(name):
        def note(kind, data):
            try:
                return (yield kind, data)
            except asyncio.CancelledError:
                seen.append(name)
                raise
            finally:
                seen.append(f"{name} ends")

        return note

    async def main():
        env = ew.adapt(Hanging()).with_middleware(named("outer"), named("inner")).aio
        await env.reset()
        seen.clear()
        step = asyncio.ensure_future(env.step(1))
        for _ in range(5):
            await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        return [request.kind for request in (await env.reset()).requests]

    gc.disable()
    try:
        assert asyncio.run(main()) == ["episode_end", "need_action"]
        assert seen[:4] == ["inner", "inner ends", "outer", "outer ends"]
    finally:
        gc.enable()


def test_an_awaited_call_that_is_thrown_away_ends_the_middleware_and_the_episode():
    seen = []

    def note(kind, data):
        try:
            return (yield kind, data)
        except GeneratorExit:
            seen.append("closed")
            raise

    env = ew.adapt(Hanging()).with_middleware(note)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(env.aio.reset())

    async def begin():
        call = env.aio.step(1)
        call.send(None)
        call.close()

    loop.run_until_complete(begin())
    assert seen == ["closed"]
    assert [request.kind for request in loop.run_until_complete(env.aio.reset()).requests] == [
        "episode_end",
        "need_action",
    ]
    loop.close()


def test_what_is_not_middleware_is_a_usage_error():
    env = ew.adapt(Count())

    def plain(kind, data):
        return None

    with pytest.raises(UsageError, match="'plain' is not a generator function"):
        env.with_middleware(plain).reset()

    def wrong(kind, data):
        yield kind

    with pytest.raises(UsageError, match="'wrong' yielded 'reset'"):
        env.with_middleware(wrong).reset()

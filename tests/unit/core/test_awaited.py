"""Sync environments for `await`: threads, cancellation, forked processes."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

import envweave as ew
from envweave.core.threads import DaemonThreads, run_in_thread
from envweave.requests import EpisodeEnd
from support.child import in_child


class Sleeper(ew.Environment[int, int]):
    def reset(self):
        return 0

    def step(self, action):
        time.sleep(1)
        return action


class Gated(ew.Environment[int, int]):
    """Waits in the call that the test names until the gate is opened."""

    def __init__(self, waits_in):
        self.waits_in = waits_in
        self.began = threading.Event()
        self.gate = threading.Event()
        self.closed = 0

    def _pass(self, call):
        if call == self.waits_in and not self.gate.is_set():
            self.began.set()
            assert self.gate.wait(60)

    def reset(self):
        self._pass("reset")
        return 0

    def step(self, action):
        self._pass("step")
        if action < 0:
            raise ValueError("negative")
        return action, 1.0, action == 9, False, {}

    def fork(self):
        self._pass("fork")
        self.twin = Gated("nothing")
        return self.twin

    def close(self):
        self._pass("close")
        self.closed += 1


def ends(requests):
    return [(request.reason, request.episode_id) for request in requests if isinstance(request, EpisodeEnd)]


async def cancelled(env, call):
    """Cancel a call after the environment has begun with it."""
    task = asyncio.ensure_future(call)
    await run_in_thread(env.unwrapped.began.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_64_environments_that_sleep_a_second_step_at_the_same_time():
    async def main():
        envs = [ew.adapt(Sleeper()).aio for _ in range(64)]
        await asyncio.gather(*(env.reset() for env in envs))
        began = time.monotonic()
        results = await asyncio.gather(*(env.step(number) for number, env in enumerate(envs)))
        return time.monotonic() - began, [result.obs for result in results]

    seconds, observations = asyncio.run(main())
    assert observations == list(range(64))
    assert seconds < 5  # 11 s with the default executor of asyncio


def test_a_slow_step_does_not_hold_up_the_loop():
    async def main():
        env = ew.adapt(Gated("step"))
        await env.aio.reset()
        step = asyncio.ensure_future(env.aio.step(1))
        await run_in_thread(env.unwrapped.began.wait)
        assert not step.done()
        env.unwrapped.gate.set()
        return (await step).obs

    assert asyncio.run(main()) == 1


def test_a_step_that_hangs_does_not_keep_the_interpreter_from_exiting():
    code = """
import asyncio, threading, envweave as ew

class Hangs:
    began = threading.Event()
    def reset(self):
        return 0
    def step(self, action):
        self.began.set()
        threading.Event().wait()

async def main():
    env = ew.adapt(Hangs()).aio
    await env.reset()
    step = asyncio.ensure_future(env.step(0))
    while not Hangs.began.is_set():
        await asyncio.sleep(0)
    step.cancel()

asyncio.run(main())
print("the end")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "the end\n"
    assert done.stderr == ""


def test_awaited_calls_work_in_a_forked_process():
    env = ew.adapt(Gated("nothing"))

    async def play():
        await env.aio.reset()
        return (await env.aio.step(3)).obs

    assert asyncio.run(play()) == 3
    assert in_child(lambda: asyncio.run(play())) == 3
    assert asyncio.run(play()) == 3


def test_idle_threads_end_and_one_that_runs_a_call_is_not_waited_for():
    pool = DaemonThreads("test")
    gate, seen = threading.Event(), []

    def work():
        seen.append(threading.current_thread())
        gate.wait(60)

    ended = threading.Event()
    pool.submit(work, lambda _value, _error: ended.set())
    pool.end(0.1)
    assert pool.count == 1
    gate.set()
    assert ended.wait(60)
    seen[0].join(60)
    assert pool.count == 0


@pytest.mark.parametrize("call", ["step", "reset"])
def test_the_end_that_a_cancelled_call_brings_is_delivered_exactly_once(call):
    async def main():
        env = ew.adapt(Gated(""))
        await env.aio.reset(episode_id="first")
        env.unwrapped.waits_in = call
        await cancelled(env, env.aio.step(9) if call == "step" else env.aio.reset(episode_id="second"))
        with pytest.raises(ew.errors.BusyError):
            await env.aio.reset()
        env.unwrapped.gate.set()
        again = None
        while again is None:
            try:
                again = await env.aio.reset(episode_id="third")
            except ew.errors.BusyError:
                await asyncio.sleep(0)
        later = await env.aio.reset(episode_id="fourth")
        return ends(again.requests), ends(later.requests), ends(await env.aio.close())

    again, later, last = asyncio.run(main())
    given_up = [("terminated", "first")] if call == "step" else [("closed", "first"), ("closed", "second")]
    assert sorted(again + later) == sorted([*given_up, ("closed", "third")])
    assert last == [("closed", "fourth")]


@pytest.mark.parametrize("action", [9, -1])
def test_the_end_of_a_cancelled_step_is_kept_when_the_loop_is_gone_before_the_step_ends(action):
    env = ew.adapt(Gated("step"))

    async def main():
        await env.aio.reset(episode_id="first")
        await cancelled(env, env.aio.step(action))

    asyncio.run(main())
    env.unwrapped.gate.set()
    found = ()
    while not found:
        try:
            found = ends(env.reset().requests)
        except ew.errors.BusyError:
            time.sleep(0.001)
    assert found == [("terminated" if action == 9 else "infra_error", "first")]
    assert len(ends(env.close())) == 1


def test_the_end_of_a_cancelled_close_is_given_by_the_next_close():
    async def main():
        env = ew.adapt(Gated("close"))
        await env.aio.reset(episode_id="first")
        await cancelled(env, env.aio.close())
        env.unwrapped.gate.set()
        found = ()
        while not found:
            found = await env.aio.close()
            await asyncio.sleep(0)
        return ends(found), await env.aio.close(), env.unwrapped.closed

    assert asyncio.run(main()) == ([("closed", "first")], (), 1)


def test_a_fork_that_nobody_waits_for_any_more_is_closed():
    async def main():
        env = ew.adapt(Gated("fork"))
        await env.aio.reset()
        await cancelled(env, env.aio.fork())
        env.unwrapped.gate.set()
        while not getattr(env.unwrapped, "twin", None) or not env.unwrapped.twin.closed:
            await asyncio.sleep(0)
        return env.unwrapped.twin.closed, env.unwrapped.closed

    assert asyncio.run(main()) == (1, 0)


def test_an_async_environment_on_another_loop_keeps_the_end_of_a_cancelled_step():
    class Slow(ew.AsyncEnvironment[int, int]):
        async def reset(self):
            return 0

        async def step(self, action):
            began.set()
            await asyncio.Event().wait()

    began = threading.Event()
    env = ew.adapt(Slow())
    env.reset(episode_id="first")  # on the background loop

    async def main():
        step = asyncio.ensure_future(env.aio.step(1))
        await run_in_thread(began.wait)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step

    asyncio.run(main())
    assert ends(env.reset().requests) == [("infra_error", "first")]
    env.close()


@pytest.mark.parametrize("vector", [False, True])
def test_what_a_cancelled_make_has_built_is_closed(vector):
    began, gate, closed = threading.Event(), threading.Event(), threading.Event()

    class Slow(Sleeper):
        def __init__(self):
            began.set()
            assert gate.wait(60)

        def close(self):
            closed.set()

    async def main():
        making = asyncio.ensure_future(ew.aio.make_vector(Slow, 1) if vector else ew.aio.make(Slow))
        await run_in_thread(began.wait)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making

    asyncio.run(main())
    gate.set()
    assert closed.wait(60)

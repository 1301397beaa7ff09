"""Environments written for OpenEnv, without OpenEnv: its base class is imitated."""

import asyncio
import threading

import pytest

import envweave as ew
from envweave.core.env_types import types_of
from envweave.core.openenv import AwaitedOpenEnv, OpenEnv
from envweave.plan import prepared


class Environment:
    __module__ = "openenv.core.env_server.interfaces"
    transform = None

    def reset(self, seed=None, episode_id=None, **kwargs):
        raise NotImplementedError

    def step(self, action, timeout_s=None, **kwargs):
        raise NotImplementedError

    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        return self.reset(seed=seed, episode_id=episode_id, **kwargs)

    async def step_async(self, action, timeout_s=None, **kwargs):
        return self.step(action, timeout_s=timeout_s, **kwargs)

    def close(self):
        pass


class Sync(Environment):
    def __init__(self):
        self.transform = lambda observation: observation + 100
        self.threads = []

    def reset(self, seed=None, episode_id=None, start=0, **kwargs):
        self.threads.append(threading.current_thread())
        return start

    def step(self, action: int, timeout_s: float | None = None, **kwargs):
        self.threads.append(threading.current_thread())
        return self.transform(action)

    def close(self):
        self.threads.append(threading.current_thread())


class Awaiting(Sync):
    async def reset_async(self, seed=None, episode_id=None, start=0, **kwargs):
        await asyncio.sleep(0)
        return start

    async def step_async(self, action: int, timeout_s=None, **kwargs):
        await asyncio.sleep(0)
        return self.transform(action)

    def step(self, action, timeout_s=None, **kwargs):
        raise NotImplementedError


class Half(Sync):
    async def step_async(self, action: int, timeout_s=None, **kwargs):
        return self.transform(action)


@pytest.mark.parametrize(("kind", "wrapper"), [(Sync, OpenEnv), (Awaiting, AwaitedOpenEnv), (Half, AwaitedOpenEnv)])
def test_it_plays_and_its_transform_is_its_own_matter(kind, wrapper):
    env = kind()
    assert type(prepared(env, "this is")) is wrapper
    with ew.adapt(env) as handle:
        assert handle.reset(seed=1, start=7).observation == 7
        assert handle.step(1).observation == 101
        with pytest.raises(ew.InvalidActionError):
            handle.step("x")


@pytest.mark.parametrize("kind", [Sync, Awaiting])
def test_a_transform_that_is_set_on_the_handle_is_the_environments(kind):
    env = kind()
    with ew.adapt(env) as handle:
        handle.reset()
        handle.transform = lambda observation: observation + 1000
        assert handle.transform is env.transform
        assert handle.step(1).observation == 1001


def test_what_stayed_sync_in_an_async_one_runs_on_one_thread_of_its_own():
    env = Half()
    with ew.adapt(env) as handle:
        handle.reset()
        handle.step(1)
        handle.reset()
    assert len(env.threads) == 3
    assert len(set(env.threads)) == 1
    assert env.threads[0] is not threading.current_thread()


def test_the_type_of_the_action_is_that_of_the_first_parameter():
    class Vague:
        def step(self, action, timeout_s: float | None = None): ...

    class Static:
        @staticmethod
        def step(action: int): ...

    assert types_of(Vague).action is None
    assert types_of(Static).action is int
    assert types_of(Awaiting).action is int, "where only step_async says it"


def test_an_environment_that_is_called_the_same_is_not_taken_for_one():
    class Environment:
        def reset(self):
            return 0

        def step(self, action):
            return 0

    env = Environment()
    assert prepared(env, "this is") is env


class Tally(Environment):
    """Adds up; `step` is async, the rest is not."""

    def __init__(self, total=0):
        self.total = total

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.total = 0
        return 0

    async def step_async(self, action: int, timeout_s=None, **kwargs):
        self.total += action
        return self.total


class SyncTally(Tally):
    step_async = Environment.step_async

    def step(self, action: int, timeout_s=None, **kwargs):
        self.total += action
        return self.total


class OwnFork(Tally):
    def __init__(self, total=0, name="first"):
        super().__init__(total)
        self.name = name
        self.lock = threading.Lock()

    def fork(self):
        return OwnFork(self.total, "second")


class CopiesItself(SyncTally):
    def __deepcopy__(self, memo):
        return CopiesItself(self.total)


@pytest.mark.parametrize("kind", [Tally, SyncTally, OwnFork, CopiesItself])
def test_an_environment_written_for_openenv_forks_and_its_fork_is_one_too(kind):
    with ew.adapt(kind()) as env:
        env.reset()
        env.step(2)
        with env.fork() as twin, twin.fork() as third:
            assert type(twin.backend.env) is type(env.backend.env)
            assert (twin.step(1).obs, third.step(5).obs, env.step(3).obs) == (3, 7, 5)
            assert twin.reset().obs == 0

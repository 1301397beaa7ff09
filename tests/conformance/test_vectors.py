"""The vector suite for our executors, and what can only be seen of environments in this process."""

import asyncio
import random
import threading

import gymnasium as gym
import numpy as np
import pytest

import envweave as ew
from envweave.errors import UsageError
from envweave.plan import EnvPlan
from envweave.testing.suites import ExecutorSuite, VectorSuite
from envweave.testing.suites.vector.parity import VectorParityTests
from envweave.vector.inproc import InprocExecutor
from envweave.vector.slot import Slot

BACKENDS = ["inproc", "thread"]


class TestInproc(VectorSuite):
    timeouts = False

    @pytest.fixture
    def make_vector(self):
        return lambda source, num_envs, **options: ew.make_vector(source, num_envs, backend="inproc", **options)


class TestThread(ExecutorSuite):
    @pytest.fixture
    def make_vector(self):
        return lambda source, num_envs, **options: ew.make_vector(source, num_envs, backend="thread", **options)


def served(env_server, *others):
    """Make vectors on servers, whose time limit for steps is an option of the server."""

    def make(source, num_envs, *, step_timeout=None, **options):
        limit = () if step_timeout is None else ("--step-timeout", str(step_timeout))
        url = env_server(source, "--allow-branching", "--log-level", "warning", *limit, *others)
        return ew.make_vector(url.replace("http", "ws"), num_envs, **options)

    return make


class TestServer(ExecutorSuite):
    @pytest.fixture
    def make_vector(self, env_server):
        return served(env_server)

    @pytest.mark.xfail(reason="a server gives up the step and its reset together", strict=True)
    def test_a_reset_that_hangs_after_an_end_does_not_lose_the_result(self, vector, steered, files):
        super().test_a_reset_that_hangs_after_an_end_does_not_lose_the_result(vector, steered, files)


class TestProcessServer(VectorParityTests):
    @pytest.fixture
    def make_vector(self, env_server):
        return served(env_server, "--isolation", "process")


# Environments of this process.


class Walker:
    """Draws its start by the seed, ends at 5, and fails on demand."""

    built = 0
    closed = 0

    def __init__(self):
        type(self).built += 1
        self.number = self.built

    def reset(self, *, seed=None, start=None):
        self.at = random.Random(seed).randrange(1000) / 1000 if start is None else start
        return self.at

    def step(self, action: int):
        if action == 13:
            raise ZeroDivisionError("thirteen")
        self.at += action
        return self.at, float(action), self.at >= 5, False, {"number": self.number}

    def close(self):
        type(self).closed += 1


@pytest.fixture(params=BACKENDS)
def vector(request):
    """Make vectors of walkers on one backend, and close them."""
    Walker.built = Walker.closed = 0
    ew.register("walker", Walker, overwrite=True)
    made = []

    def make(num_envs=4, id="walker", **options):
        made.append(ew.make_vector(id, num_envs, backend=request.param, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def reasons(requests):
    return [request.reason for request in requests if isinstance(request, ew.EpisodeEnd)]


def test_different_environments_live_in_one_vector(vector):
    vec = vector(None, id=["counter", "lineworld?size=2", "nim"])
    vec.reset(seed=0)
    batch = vec.step([{"delta": 1}, {"move": 1}, {"alice": {"heap": 0, "count": 1}}])
    assert batch.reward == [1.0, -0.01, {"alice": 0.0, "bob": 0.0}]
    assert vec.ids == ["counter#0", "lineworld#1", "nim#2"]


def test_a_factory_that_fails_for_one_slot_closes_those_already_made():
    built = []

    def factory():
        if len(built) == 2:
            raise OSError("no more")
        built.append(1)
        return Walker()

    Walker.closed = 0
    ew.register("few", factory, overwrite=True)
    for backend in BACKENDS:
        built.clear()
        with pytest.raises(ew.EnvError, match="no more"):
            ew.make_vector("few", 3, backend=backend)
    assert Walker.closed == 4


@pytest.mark.parametrize("num_envs", [0, -1, None, 1.5, True])
def test_a_wrong_number_of_environments_is_refused(num_envs):
    with pytest.raises(UsageError):
        ew.make_vector("counter", num_envs)
    with pytest.raises(UsageError):
        ew.make_vector([], num_envs)


def test_gymnasium_environments_are_vectorized_with_the_same_results_on_every_backend():
    ew.register("cartpole", lambda: gym.make("CartPole-v1"), overwrite=True)
    actions = [[(i * j) % 2 for i in range(4)] for j in range(60)]
    played = []
    for backend in BACKENDS:
        with ew.make_vector("cartpole", 4, backend=backend, autoreset=True) as vec:
            played.append([[list(map(float, obs)) for obs in vec.reset(seed=3).obs]])
            for row in actions:
                batch = vec.step(row)
                played[-1].append(([list(map(float, obs)) for obs in batch.obs], batch.reward, batch.done))
    assert played[0] == played[1]
    env = gym.make("CartPole-v1")
    first, _ = env.reset(seed=3)
    assert list(map(float, first)) == played[0][0][0]
    env.close()


def test_an_async_environments_transform_counts_in_a_vector(vector):
    class Async(ew.AsyncEnvironment):
        def __init__(self):
            self.transform = lambda observation: ew.Observation(reward=7.0)

        async def reset(self):
            return 0

        async def step(self, action: int):
            return ew.Observation(reward=1.0)

    ew.register("async-transform", Async, overwrite=True)
    vec = vector(2, id="async-transform")
    vec.reset()
    assert vec.step([0, 0]).reward == [7.0, 7.0]


def test_the_deadline_of_an_action_counts_from_when_the_driver_was_asked():
    now = [0.0]

    class Slow(Walker):
        def step(self, action: int):
            now[0] += 1.0
            return super().step(action)

    executor = InprocExecutor()
    plan = EnvPlan(ew.EnvSpec(id="slow", factory=Slow, deadline=1.5), clock=lambda: now[0])
    slots = [Slot(f"slow#{i}", plan, executor, autoreset=False) for i in range(5)]
    executor.open(slots)
    with ew.VectorEnv(slots) as vec:
        vec.reset(start=-100)
        for _ in range(3):
            assert vec.step([0] * 5).failures == {}
        now[0] += 2.0
        assert all(reasons(requests) == ["timeout"] for requests in vec.step([0] * 5).requests)


def test_ctrl_c_in_a_reset_leaves_a_vector_that_can_be_reset():
    class Interrupts(Walker):
        armed = True

        def reset(self, *, seed=None):
            if self.number == 2 and Interrupts.armed:
                Interrupts.armed = False
                raise KeyboardInterrupt
            return self.number

    Interrupts.built = 0
    ew.register("interrupts", Interrupts, overwrite=True)
    with ew.make_vector("interrupts", 3) as vec:
        with pytest.raises(KeyboardInterrupt):
            vec.reset()
        assert vec.reset().obs == [1, 2, 3]


def test_a_close_that_fails_in_any_way_does_not_keep_the_others_from_closing(vector):
    class Bad(Walker):
        def close(self):
            super().close()
            raise GeneratorExit

    ew.register("bad-close", Bad, overwrite=True)
    Bad.closed = 0
    vec = vector(3, id="bad-close")
    vec.close()
    assert Bad.closed == 3


def test_numpy_numbers_are_numbers_and_anything_else_is_refused(vector):
    vec = vector(np.int64(3))
    assert len(vec.reset(seed=np.int64(3)).obs) == 3
    assert vec.reset(ids=np.array([2]), seed=np.array([3])).ids == [2]
    assert len(vec.step([], ids=[])) == 0
    for wrong in ({"seed": 1.5}, {"seed": [1]}, {"ids": 1}, {"ids": [None]}, {"ids": ["x"]}, {"ids": [1.7]}):
        with pytest.raises(UsageError):
            vec.reset(**wrong)
    for wrong in ({"timeout": float("nan")}, {"min_ready": "x"}, {"min_ready": -1}):
        with pytest.raises(UsageError):
            vec.recv(**wrong)
    assert len(vec.recv(timeout=float("inf"))) == 0
    with pytest.raises(UsageError):
        vec.step({"a": 1})


def test_an_info_of_the_environments_own_is_not_taken_for_a_failure(vector):
    class Says(Walker):
        def step(self, action: int):
            return 0, 1.0, True, False, {"error": {"code": 404}}

    ew.register("says", Says, overwrite=True)
    vec = vector(1, id="says")
    vec.reset(start=0)
    assert vec.step([0]).failures == {}


def test_whatever_an_environment_raises_costs_only_its_row(vector):
    class Odd(Walker):
        def step(self, action: int):
            if action:
                raise GeneratorExit
            return super().step(action)

    ew.register("odd", Odd, overwrite=True)
    vec = vector(2, id="odd")
    vec.reset(start=0)
    assert vec.step([1, 0]).reward == [None, 0.0]


def test_a_list_of_instances_is_a_vector(vector):
    envs = [Walker(), Walker()]
    vec = vector(None, id=envs)
    assert vec.reset(start=2).obs == [2, 2]
    assert vec.step([1, 13]).reward == [1.0, None]
    row = vec.reset(ids=[1])
    assert "there is only one Walker" in row.failures[1]["message"]
    assert vec.step([1], ids=[0]).obs == [4]
    vec.close()
    assert Walker.closed == 2


def test_an_environment_that_failed_is_closed_and_another_one_is_built(vector):
    vec = vector(3)
    vec.reset(start=0)
    vec.step([1, 13, 1])
    vec.reset(ids=[1], start=0)
    assert vec.step([1, 1, 1]).info[1]["number"] == 4
    assert Walker.closed == 1
    vec.close()
    assert Walker.closed == 4


def test_steps_of_many_environments_do_not_block_the_event_loop():
    released = threading.Event()

    class Waits:
        def reset(self):
            return 0

        def step(self, action):
            assert released.wait(60)
            return 0, 1.0, False, False, {}

    async def play():
        async with ew.make_vector(Waits, 64, backend="thread").aio as vec:
            await vec.reset()
            step = asyncio.create_task(vec.step([0] * 64))
            for _ in range(100):  # another coroutine makes progress while all 64 wait
                await asyncio.sleep(0)
            assert not step.done()
            released.set()
            assert (await step).reward == [1.0] * 64

    asyncio.run(play())


def test_sixty_four_steps_of_a_second_take_about_a_second():
    class Sleeps:
        def reset(self):
            return 0

        def step(self, action):
            threading.Event().wait(1.0)
            return 0, 1.0, False, False, {}

    async def play():
        async with ew.make_vector(Sleeps, 64, backend="thread").aio as vec:
            await vec.reset()
            await asyncio.wait_for(vec.step([0] * 64), 20)  # one after the other they would take 64 s

    asyncio.run(play())

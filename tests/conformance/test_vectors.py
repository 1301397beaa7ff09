"""One suite for every backend of a vector."""

import random
import threading

import gymnasium as gym
import numpy as np
import pytest

import envweave as ew
from envweave.errors import BusyError, ClosedError, InvalidActionError, ResetNeededError, UsageError
from envweave.plan import EnvPlan
from envweave.vector.inproc import InprocExecutor
from envweave.vector.slot import Slot

BACKENDS = ["inproc", "thread"]


class Walker:
    """Draws its start by the seed, ends at 5, and fails on demand."""

    built = 0
    closed = 0

    def __init__(self, *, fail_reset=False):
        type(self).built += 1
        self.number = self.built
        self.fail_reset = fail_reset

    def reset(self, *, seed=None, start=None):
        if self.fail_reset:
            raise OSError("no reset today")
        self.at = random.Random(seed).randrange(1000) / 1000 if start is None else start
        return self.at

    def step(self, action: int):
        if action == 13:
            raise ZeroDivisionError("thirteen")
        if action == 14:
            raise SystemExit("fourteen")
        if action == 15:
            raise ew.InvalidActionError("fifteen is not for me")
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


def test_a_barrier_step_gives_lists_as_long_as_the_vector(vector):
    vec = vector(3)
    obs, info = vec.reset(seed=7)
    assert len(obs) == len(info) == 3
    batch = vec.step([1, 2, 3])
    obs, reward, terminated, truncated, info = batch
    assert reward == [1.0, 2.0, 3.0]
    assert (terminated, truncated, batch.done) == ([False] * 3, [False] * 3, [False] * 3)
    assert (batch.ids, batch.incarnations, batch.steps) == ([0, 1, 2], [0, 0, 0], [1, 1, 1])
    assert [request.env_id for requests in batch.requests for request in requests] == vec.ids
    assert vec.ids == ["walker#0", "walker#1", "walker#2"]


def test_environment_i_gets_the_seed_plus_i(vector):
    expected = [random.Random(7 + i).randrange(1000) / 1000 for i in range(4)]
    vec = vector(4)
    assert vec.reset(seed=7).obs == expected
    assert vec.reset(seed=7, ids=[2, 1]).obs == [expected[2], expected[1]]
    assert vec.reset(seed=[10, 7], ids=[3, 0]).obs[1] == expected[0]


def test_a_partial_reset_leaves_the_others_in_their_episode(vector):
    vec = vector(3)
    vec.reset(start=0)
    vec.step([1, 1, 1])
    reset = vec.reset(ids=[1], start=0)
    assert (reset.ids, reset.obs, reset.steps) == ([1], [0], [0])
    assert vec.step([1, 1, 1]).obs == [2, 1, 2]


def test_a_subset_can_be_stepped(vector):
    vec = vector(3)
    vec.reset(start=0)
    assert vec.step([1, 2], ids=[2, 0]).obs == [1, 2]
    assert vec.step({1: 3}).obs == [3]
    turned = vec.step({2: 0, 0: 1, 1: 0})
    assert (turned.ids, turned.obs) == ([2, 0, 1], [1, 3, 3])
    assert vec.step([0, 0, 0]).obs == [3, 3, 1]


def test_a_finished_environment_must_be_reset_and_the_refusal_names_it_before_anything_steps(vector):
    vec = vector(3)
    vec.reset(start=0)
    assert vec.step([1, 5, 1]).done == [False, True, False]
    with pytest.raises(ResetNeededError, match="environment 1") as caught:
        vec.step([1, 1, 1])
    assert "ids=[1]" in caught.value.hint
    vec.reset(ids=[1], start=0)
    assert vec.step([1, 1, 1]).obs == [2, 1, 2]


def test_an_invalid_action_is_refused_before_any_environment_steps(vector):
    vec = vector(3)
    vec.reset(start=0)
    with pytest.raises(InvalidActionError, match=r"environment 2: .*integer"):
        vec.step([1, 1, "x"])
    assert vec.step([0, 0, 0]).obs == [0, 0, 0]


@pytest.mark.parametrize("actions", [[1], [1, 1, 1], "ab", 3, None])
def test_the_wrong_number_of_actions_is_refused(vector, actions):
    vec = vector(2)
    vec.reset(start=0)
    with pytest.raises(UsageError):
        vec.step(actions)
    assert vec.step([0, 0]).obs == [0, 0]


@pytest.mark.parametrize("ids", [[2], [-1], [0, 0]])
def test_unknown_and_repeated_environments_are_refused(vector, ids):
    vec = vector(2)
    vec.reset(start=0)
    with pytest.raises(UsageError):
        vec.reset(ids=ids)
    with pytest.raises(UsageError):
        vec.send([0] * len(ids), ids)


@pytest.mark.parametrize("action", [13, 14])
def test_one_failure_costs_one_row_and_the_slot_is_rebuilt_for_its_reset(vector, action):
    vec = vector(3)
    vec.reset(start=0)
    batch = vec.step([1, action, 1])
    assert batch.obs == [1, 0, 1]
    assert batch.reward == [1.0, None, 1.0]
    assert batch.done == [False, True, False]
    assert reasons(batch.requests[1]) == ["infra_error"]
    assert list(batch.failures) == [1]
    with pytest.raises(ResetNeededError):
        vec.step([1, 1, 1])
    reset = vec.reset(ids=[1], start=0)
    assert reset.incarnations == [1]
    after = vec.step([1, 1, 1])
    assert after.obs == [2, 1, 2]
    assert after.incarnations == [0, 1, 0]
    assert after.info[1]["number"] == 4
    assert Walker.closed == 1


def test_a_failure_with_autoreset_is_followed_by_the_next_episode_on_a_new_environment(vector):
    vec = vector(2, autoreset=True)
    vec.reset(start=0)
    batch = vec.step([1, 13])
    assert batch.reward == [1.0, None]
    assert [request.kind for request in batch.requests[1]] == ["episode_end", "autoreset_ready", "need_action"]
    assert batch.requests[1][1].episode_id != batch.requests[1][0].episode_id
    assert vec.step([1, 1]).reward == [1.0, 1.0]


def test_an_action_the_environment_refuses_costs_the_row_its_score_and_the_episode_goes_on(vector):
    vec = vector(2)
    vec.reset(start=0)
    batch = vec.step([1, 15])
    assert (batch.obs, batch.reward, batch.done) == ([1, 0], [1.0, None], [False, False])
    assert batch.failures[1]["code"] == "usage.invalid_action"
    assert [request.kind for request in batch.requests[1]] == ["need_action"]
    assert vec.step([1, 1]).obs == [2, 1]


def test_an_end_with_autoreset_keeps_the_last_observation(vector):
    vec = vector(2, autoreset=True)
    vec.reset(start=0)
    batch = vec.step([5, 1])
    assert (batch.obs, batch.done) == ([5, 1], [True, False])
    assert [request.kind for request in batch.requests[0]] == ["episode_end", "autoreset_ready", "need_action"]
    assert vec.step([0, 1]).steps == [1, 2]


def test_a_reset_that_fails_is_tried_again_on_a_new_environment():
    class Once(Walker):
        def reset(self, *, seed=None):
            if self.number == 1:
                raise OSError("first one is bad")
            return self.number

    for backend in BACKENDS:
        Once.built = 0
        ew.register("once", Once, overwrite=True)
        with ew.make_vector("once", 2, backend=backend) as vec:
            reset = vec.reset()
            assert (sorted(reset.obs), sorted(reset.incarnations)) == ([2, 3], [0, 1])


def test_a_reset_that_keeps_failing_is_a_row_with_the_reason(vector):
    ew.register("never", lambda: Walker(fail_reset=True), overwrite=True)
    vec = vector(None, id=["walker", "never"])
    reset = vec.reset(start=0)
    assert reset.obs == [0, None]
    assert "no reset today" in reset.failures[1]["message"]
    assert [request.name for request in reset.requests[1]] == ["reset_failed"]
    assert vec.step([1], ids=[0]).obs == [1]
    with pytest.raises(ResetNeededError):
        vec.step([1], ids=[1])


def test_with_autoreset_a_slot_that_cannot_begin_tries_again_and_the_others_go_on(vector):
    broken = threading.Event()

    class Sometimes(Walker):
        def reset(self, *, seed=None, start=None):
            if broken.is_set():
                raise OSError("not now")
            return super().reset(start=0)

    ew.register("sometimes", Sometimes, overwrite=True)
    vec = vector(2, id="sometimes", autoreset=True)
    vec.reset()
    broken.set()
    assert vec.step([5, 1]).reward == [5.0, 1.0]
    for _ in range(2):
        row = vec.step([1, 1])
        assert row.reward == [None, 1.0]
        assert "not now" in row.failures[0]["message"]
        assert "episode_end" not in [request.kind for request in row.requests[0]]
    broken.clear()
    back = vec.step([1, 0])
    assert [request.kind for request in back.requests[0]] == ["autoreset_ready", "need_action"]
    assert vec.step([1, 0]).reward[0] == 1.0


def test_different_environments_live_in_one_vector(vector):
    vec = vector(None, id=["counter", "lineworld?size=2", "nim"])
    vec.reset(seed=0)
    batch = vec.step([{"delta": 1}, {"move": 1}, {"alice": {"heap": 0, "count": 1}}])
    assert batch.reward == [1.0, -0.01, {"alice": 0.0, "bob": 0.0}]
    assert vec.ids == ["counter#0", "lineworld#1", "nim#2"]


def test_ready_first_delivers_every_step_once_and_in_order(vector):
    vec = vector(8)
    vec.reset(start=-1000)
    sent = dict.fromkeys(range(8), 0)
    vec.send([1] * 8)
    seen = {id: [] for id in range(8)}
    while sum(map(len, seen.values())) < 200:
        batch = vec.recv(min_ready=2, timeout=30)
        assert len(set(batch.ids)) == len(batch)
        for id, step, observation in zip(batch.ids, batch.steps, batch.obs, strict=True):
            seen[id].append(step)
            assert observation == -1000 + step
        vec.send([1] * len(batch), batch.ids)
        for id in batch.ids:
            sent[id] += 1
    assert all(steps == list(range(1, len(steps) + 1)) for steps in seen.values())


def test_recv_without_anything_in_flight_returns_at_once(vector):
    vec = vector(2)
    assert len(vec.recv(min_ready=2)) == 0
    vec.reset(start=0)
    assert len(vec.recv()) == 0


def test_max_ready_leaves_the_rest_for_later(vector):
    vec = vector(4)
    vec.reset(start=0)
    vec.send([1, 1, 1, 1])
    first = vec.recv(min_ready=3, max_ready=3, timeout=30)
    assert len(first) == 3
    assert len(vec.in_flight) == 1
    second = vec.recv(min_ready=1, timeout=30)
    assert sorted(first.ids + second.ids) == [0, 1, 2, 3]
    assert vec.in_flight == []


def test_resets_can_be_sent_too(vector):
    vec = vector(2)
    vec.send_reset(start=0)
    batch = vec.recv(min_ready=2, timeout=30)
    assert (batch.obs, batch.reward, batch.done, batch.steps) == ([0, 0], [None, None], [False, False], [0, 0])
    vec.send([1], [0])
    vec.send_reset([1], start=3)
    both = vec.recv(min_ready=2, timeout=30)
    assert dict(zip(both.ids, both.obs, strict=True)) == {0: 1, 1: 3}


def test_nothing_can_be_sent_to_an_environment_that_has_not_answered(vector):
    vec = vector(2)
    vec.reset(start=0)
    vec.send([1], [0])
    for call in (lambda: vec.send([1], [0]), lambda: vec.reset(ids=[0]), lambda: vec.step([1, 1])):
        with pytest.raises(BusyError):
            call()
    assert vec.step([1], ids=[1]).obs == [1]
    assert vec.recv(timeout=30).obs == [1]


def test_step_async_and_step_wait_are_a_step_in_two_halves(vector):
    vec = vector(2)
    vec.reset(start=0)
    with pytest.raises(UsageError):
        vec.step_wait()
    vec.step_async([1, 2])
    with pytest.raises(BusyError):
        vec.step_async([1, 2])
    assert len(vec.recv(timeout=0)) == 0
    assert vec.step_wait(timeout=30).obs == [1, 2]


def test_unknown_reset_options_are_refused_before_any_environment_resets(vector):
    vec = vector(2)
    vec.reset(start=0)
    vec.step([1, 1])
    with pytest.raises(UsageError, match="environment 0: reset has no option 'strat'"):
        vec.reset(strat=1)
    assert vec.step([1, 1]).obs == [2, 2]


def test_close_closes_every_environment_and_twice_is_harmless(vector):
    vec = vector(3)
    vec.reset(start=0)
    vec.send([1, 1, 1])
    assert vec.close() == []
    assert vec.close() == []
    assert Walker.closed == 3
    for call in (vec.reset, vec.recv, lambda: vec.step([1, 1, 1])):
        with pytest.raises(ClosedError):
            call()


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


def test_multi_agent_environments_are_vectorized(vector):
    vec = vector(2, id="rock-paper-scissors", autoreset=True)
    vec.reset()
    hands = {"left": {"hand": "rock"}, "right": {"hand": "paper"}}
    for _ in range(7):
        batch = vec.step([hands, hands])
        assert batch.reward == [{"left": -1.0, "right": 1.0}] * 2


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


def test_a_tool_call_in_a_vector_is_answered(vector):
    class Asks(Walker):
        def step(self, action: int):
            return ew.StepResult(self.at, requests=[ew.ToolCall(tool_name="t")])

        def respond(self, request_id, value):
            if value == "fail":
                raise OSError("no")
            return value, 1.0, True, False, {}

    ew.register("asks", Asks, overwrite=True)
    vec = vector(2, id="asks")
    vec.reset(start=0)
    calls = [requests[0] for requests in vec.step([0, 0]).requests]
    with pytest.raises(UsageError, match="environment 0: tool call") as caught:
        vec.step([0, 0])
    assert "vector.respond(0, " in caught.value.hint
    assert vec.respond(0, calls[0].request_id, "found").obs == ["found"]
    vec.send_response(1, calls[1].request_id, "fail")
    failed = vec.recv(timeout=30)
    assert (failed.ids, failed.reward, list(failed.failures)) == ([1], [None], [1])
    with pytest.raises(UsageError):
        vec.respond(0, "nobody", 1)


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


def test_a_vector_has_no_transform(vector):
    vec = vector(2)
    assert not hasattr(vec, "transform")
    with pytest.raises(UsageError, match="no transform"):
        vec.transform = lambda observation: observation
    vec.reset(start=0)
    assert vec.step([1, 1]).reward == [1.0, 1.0]


@pytest.mark.parametrize("timeout", ["soon", float("nan")])
def test_a_wrong_timeout_is_refused_before_any_environment_steps(vector, timeout):
    vec = vector(2)
    vec.reset(start=0)
    for call in (lambda: vec.step([1, 1], timeout=timeout), lambda: vec.close(timeout=timeout)):
        with pytest.raises(UsageError):
            call()
    assert vec.step([1, 1]).obs == [1, 1]


@pytest.mark.parametrize("counts", [{"max_ready": "x"}, {"max_ready": 0}, {"min_ready": 3, "max_ready": 2}])
def test_counts_without_a_meaning_are_refused(vector, counts):
    with pytest.raises(UsageError, match="ready"):
        vector(2).recv(**counts)


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

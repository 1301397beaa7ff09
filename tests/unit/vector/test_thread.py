"""What only threads can do, and what they cannot."""

import os
import threading

import pytest

import envweave as ew
from envweave.errors import UsageError, WaitTimeoutError


class Gate:
    """Steps wait until the test lets them through; closing is counted."""

    def __init__(self, gates):
        self.gates = gates
        self.closed = threading.Event()

    def reset(self, *, seed=None):
        self.count = 0
        return 0

    def step(self, action: int):
        if action:
            assert self.gates[action].wait(60)
        self.count += 1
        return self.count, float(action), False, False, {}

    def close(self):
        self.closed.set()


class Sticks(Gate):
    """Its second reset hangs."""

    resets = 0

    def reset(self, *, seed=None):
        self.resets += 1
        if self.resets == 2:
            self.gates[3].wait(60)
        return super().reset()


@pytest.fixture
def gates():
    found = {number: threading.Event() for number in range(1, 5)}
    yield found
    for gate in found.values():
        gate.set()


def gated(gates, num_envs, **options):
    envs = []

    def factory():
        envs.append(Gate(gates))
        return envs[-1]

    ew.register("gate", factory, overwrite=True)
    return ew.make_vector("gate", num_envs, backend="thread", **options), envs


def test_whoever_is_ready_is_delivered_first(gates):
    vector, _ = gated(gates, 3)
    with vector:
        vector.reset()
        vector.send([1, 0, 2])
        assert vector.recv(min_ready=1, timeout=60).ids == [1]
        gates[2].set()
        assert vector.recv(min_ready=1, timeout=60).ids == [2]
        gates[1].set()
        assert vector.recv(min_ready=1, timeout=60).ids == [0]


def test_a_recv_that_times_out_loses_nothing_and_mixes_nothing(gates):
    vector, _ = gated(gates, 2)
    with vector:
        vector.reset()
        vector.send([1, 0])
        early = vector.recv(min_ready=2, timeout=1.0)
        assert (early.ids, early.steps) == ([1], [1])
        vector.send([0], [1])
        assert vector.recv(min_ready=1, timeout=60).steps == [2]
        assert len(vector.recv(timeout=0)) == 0
        assert vector.in_flight == [0]
        gates[1].set()
        late = vector.recv(min_ready=1, timeout=60)
        assert (late.ids, late.steps, late.obs) == ([0], [1], [1])


def test_a_barrier_step_that_times_out_can_be_waited_for_again(gates):
    vector, _ = gated(gates, 2)
    with vector:
        vector.reset()
        with pytest.raises(WaitTimeoutError, match=r"1 of 2 environments have not answered: \[0\]"):
            vector.step([1, 0], timeout=1.0)
        gates[1].set()
        batch = vector.step_wait(timeout=60)
        assert (batch.ids, batch.steps) == ([0, 1], [1, 1])
        assert vector.step([0, 0], timeout=60).steps == [2, 2]


def test_a_hung_step_costs_its_row_and_a_late_answer_is_dropped(gates):
    vector, envs = gated(gates, 2, step_timeout=1.0)
    with vector:
        vector.reset()
        batch = vector.step([1, 0])
        assert batch.reward == [None, 0.0]
        assert batch.requests[0][-1].reason == "infra_error"
        assert "step_timeout" in batch.failures[0]["message"]
        assert vector.abandoned == 1
        vector.reset(ids=[0])
        gates[1].set()
        after = vector.step([0, 0])
        assert (after.obs, after.incarnations) == ([1, 2], [1, 0])
        while not envs[0].closed.is_set():  # the stuck call has returned; its environment is closed by a worker
            vector.step([0, 0])
        assert not envs[2].closed.is_set()


def test_a_hung_step_with_autoreset_is_followed_by_a_new_environment(gates):
    vector, _ = gated(gates, 2, step_timeout=1.0, autoreset=True)
    with vector:
        vector.reset()
        assert vector.step([1, 0]).reward == [None, 0.0]
        back = vector.step([0, 0])
        assert [request.kind for request in back.requests[0]] == ["autoreset_ready", "need_action"]
        assert vector.step([0, 0]).obs == [1, 3]


def test_close_does_not_wait_for_a_step_that_hangs(gates):
    vector, envs = gated(gates, 2)
    vector.reset()
    vector.send([1, 0])
    assert vector.close(timeout=2.0) == [0]
    assert envs[1].closed.is_set()
    assert not envs[0].closed.is_set()


def executor_of(vector):
    (executor,) = vector._executors
    return executor


def test_fewer_workers_than_environments_is_enough(gates):
    vector, _ = gated(gates, 16, max_workers=2)
    with vector:
        vector.reset()
        assert vector.step([0] * 16).steps == [1] * 16
        assert executor_of(vector).thread_count < 8  # a thread that has just ended its call may not be idle yet


def test_the_threads_are_gone_after_close(gates):
    vector, _ = gated(gates, 8)
    with vector:
        vector.reset()
        vector.step([0] * 8)
        assert executor_of(vector).thread_count > 0
    assert executor_of(vector).thread_count == 0


@pytest.mark.parametrize("option", [{"max_workers": 0}, {"step_timeout": 0}, {"step_timeout": -1}])
def test_options_without_a_meaning_are_refused(option):
    with pytest.raises(UsageError):
        ew.make_vector("counter", 2, backend="thread", **option)


def test_a_loop_cannot_keep_a_step_timeout_and_says_so():
    with pytest.raises(UsageError, match="inproc"):
        ew.make_vector("counter", 2, backend="inproc", step_timeout=1)


def test_a_driver_that_only_polls_learns_of_a_hung_step(gates):
    vector, _ = gated(gates, 1, step_timeout=0.1)
    with vector:
        vector.reset()
        vector.send([1])
        batch = vector.recv(timeout=0)
        while not len(batch):
            batch = vector.recv(timeout=0)
        assert batch.requests[0][-1].reason == "infra_error"


def test_a_close_that_hangs_takes_no_worker_and_no_more_than_its_time(gates):
    class Clings(Gate):
        def close(self):
            self.gates[2].wait(60)

    ew.register("clings", lambda: Clings(gates), overwrite=True)
    vector = ew.make_vector("clings", 2, backend="thread", max_workers=1, step_timeout=1.0)
    vector.reset()
    assert vector.step([1, 0]).reward == [None, 0.0]
    vector.reset(ids=[0])
    gates[1].set()  # the stuck step comes back, and its environment is closed, which hangs
    for _ in range(3):
        assert vector.step([0, 0]).reward == [0.0, 0.0]
    assert vector.close(timeout=0.1) == [0, 1]


def test_a_hung_reset_in_the_middle_of_an_episode_tells_its_end(gates):
    ew.register("sticks", lambda: Sticks(gates), overwrite=True)
    with ew.make_vector("sticks", 1, step_timeout=0.5) as vector:
        vector.reset()
        row = vector.reset()
        assert [request.kind for request in row.requests[0]] == ["episode_end", "log_event"]
        assert "step_timeout" in row.failures[0]["message"]
        again = vector.reset()
        assert [request.kind for request in again.requests[0]] == ["need_action"]


def test_the_score_of_a_finished_episode_is_not_lost_when_the_next_one_hangs(gates):
    class Wins(Sticks):
        def step(self, action: int):
            return "won", 1.0, True, False, {}

    ew.register("wins", lambda: Wins(gates), overwrite=True)
    with ew.make_vector("wins", 1, step_timeout=0.5, autoreset=True) as vector:
        vector.reset()
        row = vector.step([0])
        assert (row.obs, row.reward, row.terminated) == (["won"], [1.0], [True])
        assert [request.kind for request in row.requests[0]] == ["episode_end", "log_event"]
        assert [request.kind for request in vector.step([0]).requests[0]] == ["autoreset_ready", "need_action"]


def test_a_forked_child_is_told_that_its_threads_are_elsewhere(gates):
    vector, _ = gated(gates, 1)
    with vector:
        vector.reset()
        vector._pid = -1  # what a forked child would see, without forking a process full of threads
        with pytest.raises(ew.errors.ClosedError, match="another process"):
            vector.step([0])
        vector._pid = os.getpid()


def test_a_close_that_hangs_when_an_environment_is_replaced_has_no_later_effect(gates):
    class Clings(Gate):
        def step(self, action: int):
            if action:
                raise OSError("no")
            return super().step(action)

        def close(self):
            self.gates[2].wait(60)

    ew.register("clings", lambda: Clings(gates), overwrite=True)
    with ew.make_vector("clings", 1, backend="thread", step_timeout=0.3) as vector:
        vector.reset()
        for number in (1, 2):
            failed = vector.step([1])
            assert [request.kind for request in failed.requests[0]] == ["episode_end"]
            assert vector.reset().incarnations == [number]
        gates[2].set()


def test_an_environment_that_is_being_rebuilt_when_the_vector_closes_is_closed_too(gates):
    built = []

    class Slow(Gate):
        def __init__(self, gates):
            super().__init__(gates)
            built.append(self)
            if len(built) == 2:
                building.set()
                gates[2].wait(60)

        def step(self, action: int):
            raise OSError("no")

    building = threading.Event()
    ew.register("slow-build", lambda: Slow(gates), overwrite=True)
    vector = ew.make_vector("slow-build", 1, backend="thread", autoreset=True)
    vector.reset()
    vector.send([0])
    while not building.is_set():
        assert len(vector.recv(timeout=0.01)) == 0
    threading.Timer(0.1, gates[2].set).start()
    assert vector.close(timeout=60) == []
    assert all(env.closed.is_set() for env in built)


def test_what_nobody_expected_is_the_failure_of_its_row(gates):
    vector, _ = gated(gates, 2)
    with vector:
        vector.reset()

        def fails(*_):
            raise LookupError("a mistake")

        vector._slots[1].backend.advance = fails
        batch = vector.step([0, 0])
        assert batch.reward == [0.0, None]
        assert "LookupError: a mistake" in batch.failures[1]["message"]
        assert vector.reset(ids=[1]).incarnations == [1]

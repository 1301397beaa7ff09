"""Snapshots and forks, and the honest refusal."""

import pickle

import pytest

import envweave as ew
from envweave.errors import UnsupportedError


def actions(env, count):
    return [env.step({"move": 1}) for _ in range(count)]


def test_a_snapshot_can_be_restored_any_number_of_times():
    env = ew.make("lineworld")
    env.reset(seed=4)
    actions(env, 2)
    kept = env.snapshot()
    for _ in range(3):
        env.restore(kept)
        assert (env.step({"move": -1}).obs.pos, env.state().step_count) == (1, 3)


def test_a_snapshot_remembers_that_the_episode_was_running():
    env = ew.make("counter")
    env.reset()
    env.step({"delta": 2})
    kept = env.snapshot()
    assert env.step({"delta": 1}).done
    env.restore(kept)
    assert env.step({"delta": 1}).done


def test_a_fork_goes_its_own_way_and_has_a_name_of_its_own():
    env = ew.make("lineworld")
    env.reset(seed=4)
    actions(env, 2)
    twin = env.fork()
    assert twin.id == "lineworld#0.1"
    assert twin.step({"move": 1}).obs.pos == 3
    assert env.step({"move": -1}).obs.pos == 1
    assert twin.step({"move": 1}).obs.pos == 4
    assert twin.pending[0].env_id == twin.id


def test_forks_of_one_state_draw_the_same_chance():
    env = ew.make("lineworld", size=1)
    env.reset(seed=4)
    twin = env.fork()
    assert [env.reset().obs.goal for _ in range(20)] == [twin.reset().obs.goal for _ in range(20)]


def test_an_environment_without_snapshots_refuses():
    env = ew.make("rock-paper-scissors")
    env.reset()
    for call in (env.snapshot, env.fork):
        with pytest.raises(UnsupportedError, match="does not support snapshot"):
            call()


def test_an_adapted_instance_cannot_be_forked_but_can_be_restored():
    env = ew.adapt(ew.examples.CounterEnv())
    env.reset()
    with pytest.raises(UnsupportedError, match="only one"):
        env.fork()
    kept = env.snapshot()
    env.step({"delta": 2})
    env.restore(kept)
    assert env.step({"delta": 1}).obs.value == 1


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_snapshot_survives_pickle_in_every_phase(steps):
    env = ew.make("counter")
    env.reset()
    for _ in range(steps):
        env.step({"delta": 1})
    env.restore(pickle.loads(pickle.dumps(env.snapshot())))
    if steps == 3:
        with pytest.raises(ew.errors.ResetNeededError):
            env.step({"delta": 1})
    else:
        assert env.step({"delta": 1}).obs.value == steps + 1


@pytest.mark.parametrize("garbage", [None, {}, 3])
def test_what_is_not_a_snapshot_is_refused(garbage):
    env = ew.make("counter")
    env.reset()
    with pytest.raises(ew.UsageError, match="is not a snapshot"):
        env.restore(garbage)


def test_an_episode_that_is_left_by_restore_gets_its_end_and_no_number_is_used_twice():
    env = ew.make("counter")
    env.reset()
    kept = env.snapshot()
    env.reset()
    env.restore(kept)
    again = env.reset()
    ended = [request.episode_id for request in again.requests if isinstance(request, ew.EpisodeEnd)]
    assert ended == ["counter#0/2", "counter#0/1"]
    assert env.state().episode_id == "counter#0/3"


def test_a_fork_in_the_middle_of_a_tool_call_waits_for_it_too():
    class Asks(ew.examples.CounterEnv):
        def step(self, action):
            return ew.StepResult(0, requests=[ew.ToolCall(tool_name="t")])

        def respond(self, request_id, value):
            return value, 1.0, True, False, {}

    ew.register("asks", Asks, overwrite=True)
    env = ew.make("asks")
    env.reset()
    (call,) = env.step({"delta": 1}).requests
    twin = env.fork()
    assert twin.pending[0].env_id == "asks#0.1"
    assert env.respond(call.request_id, "a").obs == "a"
    assert twin.respond(call.request_id, "b").obs == "b"

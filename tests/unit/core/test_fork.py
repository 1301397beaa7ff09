"""Snapshots and forks, and the honest refusal."""

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

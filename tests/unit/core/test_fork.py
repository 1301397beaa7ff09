"""Snapshots and forks, and the honest refusal."""

import asyncio
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


def test_an_environment_with_a_fork_only_has_no_snapshots():
    env = ew.adapt(ForksOnly())
    env.reset()
    with pytest.raises(UnsupportedError, match="does not support snapshot"):
        env.snapshot()
    env.step(2)
    twin = env.fork()
    assert (twin.step(1).obs, env.step(5).obs) == (3, 7)


def test_an_adapted_instance_can_be_forked_and_restored():
    env = ew.adapt(ew.examples.CounterEnv())
    env.reset()
    twin = env.fork()
    assert (twin.step({"delta": 3}).obs.value, env.step({"delta": 1}).obs.value) == (3, 1)
    env.reset()
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
    env.reset(episode_id="first")
    kept = env.snapshot()
    env.reset(episode_id="second")
    env.restore(kept)
    again = env.reset()
    ended = [request.episode_id for request in again.requests if isinstance(request, ew.EpisodeEnd)]
    assert ended == ["second", "first"]
    assert env.state().episode_id not in ended


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


class ForksOnly(ew.Environment[int, int]):
    """Has a live copy and no snapshots."""

    def __init__(self, total=0):
        self.total = total

    def reset(self):
        return self.total

    def step(self, action: int):
        self.total += action
        return self.total, 0.0, False, False, {}

    def fork(self):
        return ForksOnly(self.total)


class Live(ew.Environment[dict, int]):
    """Makes a live copy of itself, and says so."""

    def __init__(self):
        self.at = 0
        self.forks = 0

    def reset(self, *, seed=None):
        self.at = 0
        return self.at

    def step(self, action):
        self.at += 1
        return self.at, 1.0, self.at == 5, False, {}

    def fork(self):
        twin = Live()
        twin.at, twin.forks = self.at, self.forks + 1
        return twin


def test_an_environment_that_makes_live_copies_is_forked_by_them():
    env = ew.adapt(Live(), id="live")
    env.reset(episode_id="mine")
    env.step({})
    with env.fork() as twin, twin.fork() as third:
        assert (twin.unwrapped.forks, third.unwrapped.forks) == (1, 2)
        assert (twin.id, third.id) == ("live.1", "live.1.1")
        assert twin.step({}).obs == 2
        assert third.step({}).obs == 2
        assert env.step({}).obs == 2
        assert [each.state().episode_id for each in (env, twin, third)] == ["mine"] * 3
        assert twin.pending[0].env_id == twin.id


def test_a_live_copy_knows_that_its_episode_is_over_and_one_before_the_first_reset_that_none_is():
    env = ew.adapt(Live())
    with pytest.raises(ew.errors.ResetNeededError):
        env.fork().step({})
    env.reset()
    for _ in range(5):
        last = env.step({})
    assert last.done
    with pytest.raises(ew.errors.ResetNeededError):
        env.fork().step({})


def test_a_live_copy_that_fails_is_the_environments_error_and_the_episode_goes_on():
    class Broken(Live):
        def fork(self):
            raise OSError("no room")

    env = ew.adapt(Broken())
    env.reset()
    with pytest.raises(ew.EnvError, match="no room"):
        env.fork()
    assert env.step({}).obs == 1


def test_a_closed_environment_is_not_forked():
    env = ew.adapt(Live())
    env.reset()
    env.close()
    with pytest.raises(ew.errors.ClosedError):
        env.fork()


def test_an_async_handle_forks_by_live_copies_too():
    class Slow(ew.AsyncEnvironment[dict, int]):
        def __init__(self, at=0):
            self.at = at

        async def reset(self, *, seed=None):
            self.at = 0
            return 0

        async def step(self, action):
            self.at += 1
            return self.at, 0.0, False, False, {}

        async def fork(self):
            return Slow(self.at)

    async def play():
        async with ew.adapt(Slow()).aio as env:
            await env.reset()
            await env.step({})
            async with await env.fork() as twin:
                await twin.step({})
                return (await twin.step({})).obs, (await env.step({})).obs

    assert asyncio.run(play()) == (3, 2)

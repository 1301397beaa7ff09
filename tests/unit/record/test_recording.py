"""`record=…` of `make` and `make_vector`."""

import asyncio

import pytest

import envweave as ew
from envweave.errors import RecordError, UnsupportedError
from envweave.record import Record, Recorder
from envweave.record.replay import replay

RIGHT = {"move": 1}


def play(env, seed=0):
    env.reset(seed=seed)
    while not env.step(RIGHT).done:
        pass


def kinds(episode):
    return [event["kind"] for event in episode.events]


def test_make_records_each_episode(tmp_path):
    with ew.make("lineworld?size=5", record=tmp_path, max_episode_steps=50) as env:
        play(env)
        play(env, seed=1)
        env.reset(seed=2)
    episodes = list(Record(tmp_path))
    assert [episode.end["reason"] for episode in episodes] == ["terminated", "truncated", "closed"]
    assert [episode.header["seed"] for episode in episodes] == [0, 1, 2]
    assert episodes[0].header["env"] == "lineworld?size=5"
    assert episodes[0].header["rules"] == {"max_episode_steps": 50}
    assert episodes[0].steps[0]["action"] == RIGHT
    assert episodes[0].returns["agent"] == pytest.approx(sum(step["reward"] for step in episodes[0].steps))
    assert kinds(episodes[2]) == ["episode", "reset", "end"]


def test_calls_that_are_awaited_are_recorded(tmp_path):
    async def main():
        async with await ew.aio.make("lineworld", record=tmp_path) as env:
            await env.reset(seed=0)
            await env.step(RIGHT)

    asyncio.run(main())
    (episode,) = Record(tmp_path)
    assert kinds(episode) == ["episode", "reset", "step", "end"]


def test_a_fork_is_an_episode_with_a_parent(tmp_path):
    with ew.make("lineworld", record=tmp_path) as env:
        env.reset(seed=0)
        env.step(RIGHT)
        with env.fork() as fork:
            fork.step({"move": -1})
            fork.step(RIGHT)
        env.step(RIGHT)
    fork, parent = Record(tmp_path)
    assert fork.header["parent"] == {"episode": parent.id, "n": 1}
    assert [step["n"] for step in fork.steps] == [2, 3]
    assert [step["n"] for step in parent.steps] == [1, 2]
    assert fork.header["seed"] == 0


def branch(env):
    """Five episodes: one, what follows two restores of it, a fork of the first of these, and one after a reset."""
    env.reset(seed=3)
    env.step(RIGHT)
    snapshot = env.snapshot()
    env.step(RIGHT)
    env.restore(snapshot)
    env.step({"move": -1})
    with env.fork() as fork:
        fork.step(RIGHT)
    env.restore(snapshot)
    env.step(RIGHT)
    env.reset(seed=4)


def check_branches(path):
    record = Record(path)
    found = {}
    for episode in record:
        parent = episode.header.get("parent")
        origin = (record[parent["episode"]].header.get("parent") is not None, parent["n"]) if parent else None
        steps = [step["n"] for step in episode.steps]
        found.setdefault((episode.header["seed"], origin), []).append(
            (steps, round(episode.returns.get("agent", 0), 2))
        )
    assert found == {
        (3, None): [([1, 2], -0.02)],
        (3, (False, 1)): [([2], -0.02), ([2], -0.02)],
        (3, (True, 2)): [([3], -0.03)],
        (4, None): [([], 0)],
    }
    with ew.make("lineworld") as env:
        assert [replay(episode, env) for episode in record] == [None] * 5


def test_what_follows_a_restore_goes_on_from_the_snapshot(tmp_path):
    with ew.make("lineworld", record=tmp_path) as env:
        branch(env)
    check_branches(tmp_path)


def test_a_snapshot_that_was_not_recorded_is_of_no_known_episode(tmp_path):
    with ew.make("lineworld") as other, ew.make("lineworld", record=tmp_path) as env:
        other.reset(seed=0)
        env.reset(seed=1)
        env.restore(other.snapshot())
        env.step(RIGHT)
    episode = Record(tmp_path)[1]
    assert (episode.header["restored"], episode.header.get("parent")) == (True, None)
    with ew.make("lineworld") as env, pytest.raises(UnsupportedError, match="not in the record"):
        replay(episode, env)


def test_several_agents_are_recorded_and_replayed(tmp_path):
    with ew.make("rock-paper-scissors", record=tmp_path) as env:
        env.reset(seed=1)
        while env.pending:
            env.step({"left": {"hand": "rock"}, "right": {"hand": "paper"}})
    (episode,) = Record(tmp_path)
    assert episode.header["agents"] == ["left", "right"]
    assert set(episode.returns) == set(episode.steps[0]["reward"]) == {"left", "right"}
    with ew.make("rock-paper-scissors") as env:
        assert replay(episode, env) is None


class Slow(ew.AsyncEnvironment):
    async def reset(self, *, seed=None):
        self.at = 0
        return {"at": 0}

    async def step(self, action):
        await asyncio.sleep(0)
        self.at += action
        return {"at": self.at}, 1.0, self.at == 2, False, {"rewards": {"pace": 1.0}}


def test_async_environments_are_recorded_in_handles_and_vectors(tmp_path):
    with ew.make(Slow, record=tmp_path) as env:
        env.reset(seed=0)
        env.step(1)
        env.step(1)
    with ew.make_vector(Slow, 2, record=tmp_path) as vector:
        vector.reset(seed=1)
        vector.step([1, 1])
    found = {episode.header["seed"]: episode for episode in Record(tmp_path)}
    assert [found[seed].end["reason"] for seed in range(3)] == ["terminated", "closed", "closed"]
    assert found[0].steps[0]["rewards"] == {"pace": 1.0}
    assert [len(found[seed].steps) for seed in range(3)] == [2, 1, 1]


@pytest.mark.parametrize("backend", ["inproc", "thread", "subprocess"])
def test_a_vector_with_autoreset_records_whole_episodes(tmp_path, backend):
    with ew.make_vector("lineworld", 2, backend=backend, autoreset=True, record=tmp_path) as vector:
        vector.reset(seed=0)
        for _ in range(14):
            vector.step([RIGHT] * 2)
    episodes = list(Record(tmp_path))
    assert sum(len(episode.steps) for episode in episodes) == 28
    assert all(kinds(episode)[:2] == ["episode", "reset"] and kinds(episode)[-1] == "end" for episode in episodes)
    assert {episode.end["reason"] for episode in episodes} == {"terminated", "closed"}
    assert [e.header.get("autoreset") for e in episodes if e.header["seed"] is None] == [True] * (len(episodes) - 2)


def test_autoreset_begins_the_next_episode(tmp_path):
    with ew.make("lineworld", record=tmp_path, autoreset=True) as env:
        env.reset(seed=0)
        while not env.step(RIGHT).done:
            pass
        env.step(RIGHT)
    first, second = Record(tmp_path)
    assert first.end["reason"] == "terminated"
    assert second.header["autoreset"] is True
    assert kinds(second) == ["episode", "reset", "step", "end"]


def test_refused_actions_are_counted_and_failures_named(tmp_path):
    class Broken(ew.Environment):
        def reset(self, seed=None):
            return 0

        def step(self, action):
            raise ValueError("no")

    with ew.make("lineworld", record=tmp_path / "a") as env:
        env.reset(seed=0)
        with pytest.raises(ew.InvalidActionError):
            env.step({"move": 7})
        env.step(RIGHT)
    assert Record(tmp_path / "a")[0].steps[0]["draws"] == 1
    with ew.make(Broken, record=tmp_path / "b") as env:
        env.reset()
        with pytest.raises(ew.EnvError):
            env.step(1)
    (episode,) = Record(tmp_path / "b")
    assert episode.end["reason"] == "infra_error"
    assert "ValueError" in episode.end["error"]["message"]
    assert episode.returns == {}


@pytest.mark.parametrize("backend", ["inproc", "thread"])
def test_a_vector_records_all_of_its_environments(tmp_path, backend):
    with ew.make_vector("lineworld", 3, backend=backend, record=tmp_path) as vector:
        vector.reset(seed=0)
        for _ in range(4):
            vector.step([RIGHT] * 3)
    episodes = list(Record(tmp_path))
    assert sorted(episode.header["seed"] for episode in episodes) == [0, 1, 2]
    assert [len(episode.steps) for episode in episodes] == [4, 4, 4]
    assert episodes[0].header["env"].endswith("LineWorldEnv") or episodes[0].header["env"] == "lineworld"


def test_a_recorder_may_be_shared_and_stays_open(tmp_path):
    with Recorder(tmp_path) as run:
        for seed in range(2):
            with ew.make("lineworld", record=run) as env:
                play(env, seed)
        run.episode(env="more").end("closed")
    assert len(Record(tmp_path)) == 3


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_made(tmp_path):
    (tmp_path / "file").write_text("")
    made = []
    with pytest.raises(RecordError, match="cannot record"):
        ew.make(lambda: made.append(1), record=tmp_path / "file")
    assert made == []


def test_a_token_of_a_connection_is_not_recorded(tmp_path):
    from envweave.registry.recording import made_header, open_recorder

    options = {"token": "token-of-the-server", "size": 3}
    header = made_header("http://localhost:1", None, options)
    assert header["args"] == {"size": 3}
    recorder, _ = open_recorder(tmp_path, options)
    recorder.episode(env="x", note="token-of-the-server").end("closed")
    recorder.close()
    assert "redacted" in Record(tmp_path)[0].header["note"]

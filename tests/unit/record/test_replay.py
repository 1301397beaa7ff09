"""Recorded episodes run again."""

import json
import subprocess
import sys

import pytest

import envweave as ew
from envweave.errors import RecordError, UnsupportedError, UsageError
from envweave.record import Record, Recorder
from envweave.record.comparison import first_difference
from envweave.record.replay import replay
from envweave.record.rescore import rescore
from envweave.rewards.rubric import Rubric

RIGHT = {"move": 1}

COIN = """
from random import Random
import envweave as ew

class Coin(ew.Environment):
    def reset(self, seed=None):
        self.random, self.count = Random(seed), 0
        return {"side": self.random.randrange(2), "count": 0}
    def step(self, action):
        self.count += 1
        side = self.random.randrange(2)
        seen = {"side": side, "count": self.count, "text": "x" * self.count}
        return seen, float(side == action), self.count == 6, False, {}
"""


@pytest.fixture
def coin(tmp_path, monkeypatch):
    (tmp_path / "coin_game.py").write_text(COIN)
    monkeypatch.chdir(tmp_path)
    with ew.make("./coin_game.py:Coin", record="run") as env:
        for seed in range(2):
            env.reset(seed=seed)
            while not env.step(1).done:
                pass
    return tmp_path


def envweave(*words):
    return subprocess.run([sys.executable, "-m", "envweave", *words], capture_output=True, text=True, check=False)


def test_an_episode_that_is_run_again_is_equal(coin):
    record = Record("run")
    with ew.make("./coin_game.py:Coin") as env:
        assert [replay(episode, env) for episode in record] == [None, None]


def test_the_first_field_that_differs_is_named(coin):
    (coin / "other.py").write_text(COIN.replace('"count": self.count', '"count": self.count + (self.count == 4)'))
    with ew.make("./other.py:Coin") as env:
        difference = replay(Record("run")[0], env)
        assert (difference.n, difference.path, difference.recorded, difference.found) == (4, "obs.count", 4, 5)
        assert str(difference) == "step 4: obs.count: recorded 4, found 5"
        assert "-4" in difference.diff()
        assert replay(Record("run")[0], env, to_step=3) is None


def test_the_command_replays_and_tells_differences_by_its_exit_code(coin):
    done = envweave("replay", "run")
    assert (done.returncode, done.stdout.count("6 steps are equal")) == (0, 2), done.stderr
    (coin / "coin_game.py").write_text(COIN.replace("float(side == action)", "float(side == action) + 0.5"))
    done = envweave("replay", "run", "1", "--json")
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["outcome"], row["step"], row["path"], row["code_changed"]) == ("different", 1, "reward", True)


def test_an_episode_is_replayed_on_another_backend(coin):
    done = envweave("replay", "run", "0", "--on", "subprocess")
    assert (done.returncode, "6 steps are equal" in done.stdout) == (0, True), done.stderr + done.stdout


def test_a_fork_is_replayed_from_the_reset_of_its_parent(tmp_path):
    with ew.make("lineworld", record=tmp_path) as env:
        env.reset(seed=0)
        env.step(RIGHT)
        with env.fork() as fork:
            fork.step({"move": -1})
        env.step(RIGHT)
    record = Record(tmp_path)
    with ew.make("lineworld") as env:
        assert [replay(episode, env) for episode in record] == [None, None]
    lost = Recorder(tmp_path / "lost")
    lost.add(record[0].events)
    lost.close()
    with ew.make("lineworld") as env, pytest.raises(RecordError, match=r"is a fork of .* not in the record"):
        replay(Record(tmp_path / "lost")[0], env)


def test_an_episode_that_began_by_autoreset_is_refused(tmp_path):
    with ew.make("lineworld", record=tmp_path, autoreset=True) as env:
        env.reset(seed=0)
        while not env.step(RIGHT).done:
            pass
    with ew.make("lineworld") as env, pytest.raises(UnsupportedError, match="autoreset"):
        replay(Record(tmp_path)[1], env)


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "a[1].b"),
        ({"a": 1}, {"a": 1, "b": 2}, "b"),
        ([1, 2], [1], "[1]"),
        (True, 1, ""),
        (None, 0, ""),
    ],
)
def test_differences_have_a_path(one, other, path):
    assert first_difference(one, other)[0] == path
    assert first_difference(one, one) is None


def test_a_rubric_is_applied_to_stored_steps(coin):
    rubric = Rubric(short=(0.1, lambda observation: len(observation.text) < 3), counted=lambda o: o["count"] / 10)
    episode = Record("run")[0]
    found = rescore(episode, rubric)
    own = sum(step["reward"] for step in episode.steps)
    assert found.before == own
    assert found.parts == pytest.approx({"env": own, "short": 0.2, "counted": 2.1})
    assert found.after == pytest.approx(own + 2.3)
    whole = rescore(episode, Rubric(length=lambda steps: len(steps)), over="episode")
    assert (whole.after, whole.parts) == (6.0, {"length": 6.0})


def test_what_cannot_be_scored_again_is_refused(tmp_path):
    with ew.make("rock-paper-scissors", record=tmp_path) as env:
        env.reset(seed=0)
    with pytest.raises(UnsupportedError, match="several agents"):
        rescore(Record(tmp_path)[0], Rubric(any=lambda o: 1))
    with pytest.raises(UsageError, match="not a rubric"):
        rescore(Record(tmp_path)[0], 3)


def test_the_command_writes_rescored_episodes_to_a_new_run(coin):
    (coin / "my_rubric.py").write_text(
        "from envweave.rewards.rubric import Rubric\nlength = Rubric(length=lambda o: o.count)\n"
    )
    done = envweave("rescore", "run", "--rubric", "my_rubric:length", "--to", "again")
    assert done.returncode == 0, done.stderr
    before, after = Record("run")[0], Record("again")[0]
    assert after.id == before.id
    assert after.steps[2]["rewards"]["length"] == 3
    assert after.returns["agent"] == before.returns["agent"] + 21
    assert after.header["rescored"]["rubric"] == "my_rubric:length"

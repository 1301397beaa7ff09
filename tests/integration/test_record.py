"""Records of environments on servers, and of processes that are killed."""

import random
import subprocess
import sys

import pytest

import envweave as ew
from envweave.record import Record, RecordedEpisode
from envweave.record.replay import replay
from envweave.testing.serving import running_server

RIGHT = {"move": 1}

WRITER = """
import sys
from envweave.record import Recorder
from envweave.results import ResetResult, StepResult

run = Recorder(sys.argv[1])
for number in range(int(sys.argv[2])):
    log = run.episode(env="x", seed=number)
    log.reset(ResetResult(number))
    for step in range(3):
        log.step(step, StepResult("text " * 20, 1.0))
        print(log.id, step + 1, flush=True)
    log.end("terminated")
    print(log.id, "end", flush=True)
run.close()
"""


def test_an_environment_on_a_server_is_recorded_here(tmp_path):
    with ew.make("lineworld", backend="subprocess", record=tmp_path) as env:
        env.reset(seed=0)
        while not env.step(RIGHT).done:
            pass
    (episode,) = Record(tmp_path)
    assert (episode.header["seed"], episode.header["backend"]) == (0, "subprocess")
    assert episode.end["reason"] == "terminated"


def test_a_vector_on_a_server_is_recorded_here(tmp_path):
    with ew.make_vector("lineworld", 2, backend="subprocess", record=tmp_path) as vector:
        vector.reset(seed=0)
        for _ in range(3):
            vector.step([RIGHT, RIGHT])
    episodes = list(Record(tmp_path))
    assert sorted(episode.header["seed"] for episode in episodes) == [0, 1]
    assert [step["action"] for step in episodes[0].steps] == [RIGHT] * 3


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_server_records_the_episodes_of_its_clients(tmp_path, isolation):
    with running_server("lineworld", "--record", str(tmp_path / "run"), "--isolation", isolation) as server:
        for seed in range(2):
            with ew.connect(server.url) as env:
                env.reset(seed=seed)
                env.step(RIGHT)
                env.step(RIGHT)
    episodes = list(Record(tmp_path / "run"))
    assert sorted(episode.header["seed"] for episode in episodes) == [0, 1]
    assert [[event["kind"] for event in episode.events] for episode in episodes] == [
        ["episode", "reset", "step", "step", "end"]
    ] * 2
    assert {episode.end["reason"] for episode in episodes} == {"closed"}


ROLLOUT = """
import sys
import envweave as ew

def act(observation):
    return 1

class Count(ew.Environment):
    def reset(self, *, seed=None):
        self.left = 3
        return seed
    def step(self, action):
        self.left -= 1
        return self.left, 1.0, self.left == 0, False, {}

for group in ew.rollout(Count, act, 500, group_size=2, at_once=2, record=sys.argv[1], resume=True):
    print(group.number, sum(episode.is_recorded for episode in group), flush=True)
"""


def test_a_rollout_that_was_killed_goes_on_from_its_record(tmp_path):
    command = [sys.executable, "-c", ROLLOUT, str(tmp_path)]
    seen = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        for _ in range(37):
            seen.add(int(first.stdout.readline().split()[0]))
        first.kill()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    groups = dict(map(int, line.split()) for line in done.stdout.splitlines())
    assert sorted(groups) == list(range(500))
    assert all(groups[number] == 2 for number in seen)
    assert sum(groups.values()) < 900
    ended = [episode for episode in Record(tmp_path) if episode.end["reason"] == "terminated"]
    assert len({(episode.header["group"], episode.header["sample"]) for episode in ended}) == len(ended) == 1000


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_forks_and_restores_on_a_server_have_their_parents(tmp_path, isolation):
    with (
        running_server("lineworld", "--record", str(tmp_path), "--isolation", isolation, "--allow-branching") as server,
        ew.connect(server.url) as env,
    ):
        env.reset(seed=0)
        env.step(RIGHT)
        snapshot = env.snapshot()
        env.step(RIGHT)
        env.restore(snapshot)
        env.step(RIGHT)
        with env.fork() as fork:
            fork.step(RIGHT)
    record = Record(tmp_path)
    (first,) = [episode for episode in record if "parent" not in episode.header]
    (restored,) = [episode for episode in record if episode.header.get("parent") == {"episode": first.id, "n": 1}]
    (forked,) = [episode for episode in record if episode.header.get("parent") == {"episode": restored.id, "n": 2}]
    assert [[step["n"] for step in episode.steps] for episode in (first, restored, forked)] == [[1, 2], [2], [3]]
    with ew.make("lineworld") as here:
        assert [replay(episode, here) for episode in record] == [None] * 3


def test_the_commands_record_and_replay_at_a_url(tmp_path):
    def envweave(*words):
        command = [sys.executable, "-m", "envweave", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = envweave("run", "lineworld", "--episodes", "3", "--record", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(Record(tmp_path)) == 3
    with running_server("lineworld") as server:
        done = envweave("replay", str(tmp_path), "--on", server.url)
        assert (done.returncode, done.stdout.count("steps are equal")) == (0, 3), done.stderr + done.stdout
    with running_server("lineworld?size=12") as server:
        done = envweave("replay", str(tmp_path), "0", "--on", server.url)
        assert (done.returncode, "reset: obs." in done.stdout) == (1, True), done.stderr + done.stdout


def test_nothing_that_was_acknowledged_is_lost_when_writers_are_killed(tmp_path):
    """10,000 episodes. The writers are killed at 20 random points, in the middle of an episode or between two."""
    chance = random.Random(0)
    points = sorted(chance.sample(range(1, 10_000), 20))
    acknowledged: dict[str, set[str]] = {}

    def read(stdout, ends):
        """Read until so many episodes have ended, or all that is there. Returns how many have."""
        ended = 0
        while ended < ends and (line := stdout.readline()).endswith("\n"):
            id, what = line.split()
            acknowledged.setdefault(id, set()).add(what)
            ended += what == "end"
        return ended

    for begin, end in zip([0, *points], [*points, 10_000], strict=True):
        command = [sys.executable, "-c", WRITER, str(tmp_path), "10000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert read(writer.stdout, end - begin) == end - begin
            for _ in range(chance.randrange(4)):
                id, what = writer.stdout.readline().split()
                acknowledged.setdefault(id, set()).add(what)
            writer.kill()
            read(writer.stdout, 10_000)
    record: dict[str, RecordedEpisode] = {}
    for episode in Record(tmp_path):
        assert episode.id not in record
        record[episode.id] = episode
    assert sum("end" in lines for lines in acknowledged.values()) >= 10_000
    for id, lines in acknowledged.items():
        assert lines - {"end"} <= {str(step["n"]) for step in record[id].steps}
        assert record[id].end["reason"] == "terminated" if "end" in lines else True
    unfinished = [episode for episode in record.values() if episode.end["reason"] == "unfinished"]
    assert 1 <= len(unfinished) <= 21
    assert all(episode.is_intact for episode in record.values())

"""The training run, as a user starts it."""

import json
import os
import signal
import subprocess
import sys

import pytest

TRAIN = [sys.executable, "-m", "envweave.examples.train_lineworld_pg"]

FLAKY = """
import sys, random, envweave as ew
from envweave.envs.lineworld import LineWorldEnv
from envweave.examples.train_lineworld_pg import main
chance = random.Random(0)
class Flaky(LineWorldEnv):
    def reset(self, *, seed=None):
        if seed is None and chance.random() < 0.3: raise RuntimeError("no reset")
        return super().reset(seed=seed)
    def step(self, action):
        if chance.random() < float(sys.argv[1]): raise RuntimeError("no step")
        return super().step(action)
ew.register("lineworld", Flaky)
sys.exit(main(["--episodes", "60", "--no-plot", "--run-dir", "r"]))
"""


def train(*arguments, cwd):
    return subprocess.run([*TRAIN, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=100)


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_it_learns_and_writes_its_run(tmp_path):
    done = train("--num-envs", "16", "--episodes", "400", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs" / "lineworld").iterdir()
    files = {path.name for path in folder.iterdir()}
    assert {"config.json", "metrics.jsonl", "metrics.png", "summary.json"} <= files
    assert json.loads((folder / "summary.json").read_text())["success_rate"] >= 0.95
    assert [row["episode"] for row in metrics(folder)] == list(range(1, 401))
    assert (folder / "metrics.png").read_bytes().startswith(b"\x89PNG")
    assert "success rate" in done.stdout


@pytest.mark.parametrize("seed", range(1, 6))
def test_it_learns_with_any_seed(tmp_path, seed):
    assert train("--seed", str(seed), "--no-plot", "--run-dir", "r", cwd=tmp_path).returncode == 0
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["success_rate"] >= 0.95


def test_the_same_seed_gives_the_same_run(tmp_path):
    for name in ("a", "b"):
        train("--episodes", "40", "--no-plot", "--run-dir", name, cwd=tmp_path)
    runs = [[row | {"elapsed_s": 0} for row in metrics(tmp_path / name)] for name in ("a", "b")]
    assert runs[0] == runs[1]


def test_it_learns_the_same_with_its_environments_in_containers_and_in_a_process(tmp_path, env_image):
    image = env_image("lineworld")
    where = {
        "here": (),
        "process": ("--backend", "subprocess"),
        "container": ("--backend", "docker_http", "--docker-image", image),
        "two": ("--backend", "docker_http", "--docker-image", image, "--containers", "2"),
    }
    runs = {}
    for name, options in where.items():
        done = train("--episodes", "200", "--no-plot", "--run-dir", name, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        runs[name] = [row | {"elapsed_s": 0} for row in metrics(tmp_path / name)]
    assert runs["here"][-1]["success_rate"] >= 0.95
    assert runs["process"] == runs["container"] == runs["two"] == runs["here"]


@pytest.mark.parametrize(
    "arguments", [("--episodes", "1"), ("--num-envs", "1", "--episodes", "3"), ("--episodes", "5")]
)
def test_exactly_as_many_episodes_as_asked_for_are_recorded(tmp_path, arguments):
    assert train(*arguments, "--no-plot", "--run-dir", "r", cwd=tmp_path).returncode == 0
    assert len(metrics(tmp_path / "r")) == int(arguments[-1])


def test_it_stops_at_its_target(tmp_path):
    done = train("--episodes", "0", "--target-success-rate", "0.9", "--no-plot", "--run-dir", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert metrics(tmp_path / "r")[-1]["success_rate"] >= 0.9
    assert len(metrics(tmp_path / "r")) < 10_000


def test_a_run_folder_is_never_written_over(tmp_path):
    for _ in range(2):
        train("--episodes", "2", "--no-plot", "--run-dir", "r", cwd=tmp_path)
    assert len(metrics(tmp_path / "r")) == len(metrics(tmp_path / "r-2")) == 2


def test_a_killed_run_is_resumed_from_its_checkpoint(tmp_path):
    arguments = ["--episodes", "100000", "--log-every", "10", "--run-dir", "r", "--no-plot"]
    with subprocess.Popen([*TRAIN, *arguments], cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        checkpoint = tmp_path / "r" / "checkpoint.json"
        while not checkpoint.exists():
            assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    stands_at = json.loads(checkpoint.read_text())["episodes"]
    with (tmp_path / "r" / "metrics.jsonl").open("a") as log:
        log.write('{"episode": 1')  # what a crash in the middle of a line leaves behind
    done = train("--resume", "r", "--episodes", str(stands_at + 30), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["episode"] for row in metrics(tmp_path / "r")] == list(range(1, stands_at + 31))


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (("--num-envs", "0"), "--num-envs is 0"),
        (("--episodes", "many"), "argument --episodes: invalid int value"),
        (("--nonsense",), "unrecognized arguments"),
        (("--resume", "nowhere"), "cannot resume 'nowhere'"),
        (("--run-dir", "/proc/nothing/here"), "cannot make the run folder"),
    ],
)
def test_a_wrong_call_is_two_lines(tmp_path, arguments, first):
    done = train(*arguments, cwd=tmp_path)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2
    assert lines[0].startswith(first)
    assert len(lines) == 2
    assert lines[1].startswith("hint: ")


def test_a_missing_extra_is_two_lines(tmp_path):
    code = "import sys, runpy; sys.modules['numpy'] = None; runpy.run_module(sys.argv[1], run_name='__main__')"
    command = [sys.executable, "-c", code, "envweave.examples.train_lineworld_pg"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["'numpy' is not installed", "hint: pip install 'envweave[train]'"]


def test_the_demo_runs_to_its_end(tmp_path):
    command = [sys.executable, "-m", "envweave.examples.demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert all(
        word in done.stdout for word in ("need_action", "episode_end", "autoreset_ready", "wins", "success rate")
    )


def test_a_failed_environment_is_no_reward(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FLAKY, "0.02"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["failed_rows"] > 0
    for row in metrics(tmp_path / "r"):
        ends = 1.0 if row["success"] else -1.0
        assert abs(row["return"] - (ends - 0.01 * (row["length"] - 1))) < 1e-9
        assert row["success"] or row["length"] == 20


def test_an_environment_that_always_fails_ends_the_run(tmp_path):
    done = subprocess.run([sys.executable, "-c", FLAKY, "1"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "lineworld failed 101 times" in done.stderr


def test_ctrl_c_saves_the_run(tmp_path):
    arguments = ["--episodes", "100000", "--run-dir", "r", "--no-plot"]
    with subprocess.Popen([*TRAIN, *arguments], cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        log = tmp_path / "r" / "metrics.jsonl"
        while not (log.exists() and log.stat().st_size):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    summary, checkpoint = (json.loads((tmp_path / "r" / f"{it}.json").read_text()) for it in ("summary", "checkpoint"))
    assert summary["status"] == "interrupted"
    assert summary["episodes"] == checkpoint["episodes"] == len(metrics(tmp_path / "r"))


def test_more_environments_than_episodes_is_no_overshoot(tmp_path):
    assert train("--num-envs", "64", "--episodes", "3", "--no-plot", "--run-dir", "r", cwd=tmp_path).returncode == 0
    assert len(metrics(tmp_path / "r")) == 3


def test_what_shapes_the_learning_cannot_change_on_resume(tmp_path):
    train("--episodes", "2", "--no-plot", "--run-dir", "r", cwd=tmp_path)
    done = train("--resume", "r", "--size", "4", cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "size is 5 in r")

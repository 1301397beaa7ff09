"""The training run, as a user starts it."""

import json
import os
import signal
import subprocess
import sys

import pytest

TRAIN = [sys.executable, "-m", "envweave.examples.train_lineworld_pg"]


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

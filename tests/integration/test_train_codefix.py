"""The training run on CodeFix."""

import importlib.util
import json
import os
import signal
import subprocess
import sys

import pytest

from support.need import need
from support.until import until

if importlib.util.find_spec("torch") is None:
    need("transformers", "torch is not installed")

SMALL = ("--episodes", "384", "--batch", "16", "--eval-every", "1", "--test-problems", "20", "--no-plot")


def train(folder, *arguments, code=0):
    command = [sys.executable, "-m", "envweave.examples.train_codefix_pg", "--run-dir", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=350)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def rows(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "elapsed_s"} for row in found]


@pytest.mark.timeout(400)
def test_it_solves_problems_that_it_has_not_seen(tmp_path):
    train(tmp_path / "run", "--target-success-rate", "0.95", "--seed", "1")
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["reached_target"]
    assert summary["success_rate"] >= 0.95
    assert summary["failed_episodes"] == 0
    assert summary["episodes"] <= 40_000
    assert (tmp_path / "run/metrics.png").stat().st_size > 10_000


def test_rows_are_the_same_with_the_environments_in_a_server_and_with_fewer_at_once(tmp_path):
    train(tmp_path / "inproc", *SMALL, "--num-envs", "3")
    train(tmp_path / "subprocess", *SMALL, "--backend", "subprocess")
    assert len(rows(tmp_path / "inproc")) == 3
    assert rows(tmp_path / "inproc") == rows(tmp_path / "subprocess")


@pytest.mark.timeout(400)
def test_rows_are_the_same_with_the_environments_in_a_container(tmp_path, env_image):
    train(tmp_path / "inproc", *SMALL)
    train(tmp_path / "docker", *SMALL, "--backend", "docker", "--docker-image", env_image("codefix"))
    assert rows(tmp_path / "inproc") == rows(tmp_path / "docker")


def test_an_interrupted_run_is_resumed_as_if_it_had_not_been(tmp_path):
    train(tmp_path / "whole", *SMALL)
    command = [sys.executable, "-m", "envweave.examples.train_codefix_pg", "--run-dir", str(tmp_path / "cut"), *SMALL]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    metrics = tmp_path / "cut/metrics.jsonl"
    until(lambda: metrics.exists() and len(metrics.read_text().splitlines()) >= 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) in (0, 130)  # 0 if it had just ended
    assert json.loads((tmp_path / "cut/summary.json").read_text())["status"] in ("interrupted", "finished")
    command = [sys.executable, "-m", "envweave.examples.train_codefix_pg", "--resume", str(tmp_path / "cut")]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, timeout=110, env=os.environ).returncode == 0
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")


def test_wrong_flags_are_two_lines(tmp_path):
    done = train(tmp_path / "run", "--episodes", "0", code=2)
    assert done.stderr.splitlines() == [
        "--episodes 0 without a target would not end",
        "hint: add --target-success-rate 0.95",
    ]
    assert "--lr is -1.0" in train(tmp_path / "run", "--lr", "-1", code=2).stderr
    command = [sys.executable, "-m", "envweave.examples.train_codefix_pg", "--resume", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "it has no config.json" in done.stderr) == (2, True)

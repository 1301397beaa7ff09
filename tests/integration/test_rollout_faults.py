"""Rollouts on servers and in processes that are interrupted, killed, full or hanging."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import httpx
import pytest

import envweave as ew
from envweave.errors import RolloutError
from envweave.rollouts import ScriptedPolicy
from envweave.testing.serving import running_server


def code(text):
    return f"```python\n{text}\n```"


def open_sessions(server):
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith("envweave_sessions "))


INTERRUPTED = """
import json, os, signal, sys, threading
import envweave as ew

async def policy(conversation):
    return "```python\\nprint(1)\\n```"

played = ew.rollout(sys.argv[1], policy, 10_000, group_size=4, max_turns=2, at_once=16, progress=False)
got = []
try:
    for group in played:
        got.append(group.number)
        if len(got) == 3:
            os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    played.close()  # it was not the rollout that was interrupted
    got += [group.number for group in played]
    threads = sorted(thread.name for thread in threading.enumerate() if not thread.daemon)
    print(json.dumps({"groups": got, "running": played.summary.running, "threads": threads}))
"""


def test_ctrl_c_leaves_no_threads_and_no_sessions_on_the_server():
    with running_server("codeact") as server:
        command = [sys.executable, "-c", INTERRUPTED, server.url]
        found = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert found.returncode == 0, found.stderr
        said = json.loads(found.stdout)
        assert len(said["groups"]) == len(set(said["groups"])) >= 3
        assert (said["running"], said["threads"]) == (0, ["MainThread"])
        assert open_sessions(server) == 0


def test_ctrl_c_leaves_no_processes_of_local_sandboxes():
    found = subprocess.run([sys.executable, "-c", INTERRUPTED, "codeact"], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert len(json.loads(found.stdout)["groups"]) >= 3


def test_a_server_with_fewer_sessions_than_episodes_is_used_by_as_many_as_it_has():
    with running_server("codeact", "--max-sessions", "3") as server:
        played = ew.rollout(server.url, ScriptedPolicy([code("1")]), 4, group_size=4, max_turns=1, at_once=16)
        assert [len(group.scored) for group in played] == [4] * 4
        assert not played.summary.failures
        assert open_sessions(server) == 0


def test_a_server_that_dies_ends_the_rollout_with_what_was_complete():
    with running_server("codeact") as server:
        played = ew.rollout(server.url, ScriptedPolicy([code("1")]), 500, group_size=4, max_turns=2, at_once=8)
        got = [next(played), next(played)]
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(RolloutError, match="no scored episode"):
            got.extend(iter(played))
        got.extend(played)
    assert [len(group.scored) for group in got[:2]] == [4, 4]
    assert all(episode.error is not None for group in got for episode in group if episode.reward is None)
    assert played.summary.running == 0


def test_a_killed_rollout_is_resumed_from_its_record(tmp_path):
    script = textwrap.dedent("""
        import os, sys
        import envweave as ew

        class Walk(ew.Environment[int, int]):
            def reset(self, *, seed: int | None = None) -> int:
                self.seed, self.steps = seed, 0
                with open("played", "a") as file:
                    file.write(f"{seed}\\n")
                return 0

            def step(self, action: int):
                self.steps += 1
                return self.steps, float(self.seed), self.steps == 3, False, {}

        options = {"group_size": 2, "at_once": 4, "record": "run", "resume": True, "progress": False}
        for count, group in enumerate(ew.rollout(Walk, lambda _: 1, 12, **options), 1):
            assert group.rewards == [3.0 * group.seed] * 2, group.rewards
            print(group.number, flush=True)
            if count == int(sys.argv[1]):
                os.kill(os.getpid(), 9)
        print("end")
    """).replace("\\\\n", "\\n")
    (tmp_path / "play.py").write_text(script)

    def play(groups):
        command = [sys.executable, "play.py", str(groups)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    first = play(3)
    assert first.returncode == -signal.SIGKILL, first.stderr
    complete = {int(line) for line in first.stdout.split()}
    before = len((tmp_path / "played").read_text().split())
    second = play(0)
    assert second.returncode == 0, second.stderr
    assert sorted(map(int, second.stdout.split()[:-1])) == list(range(12))
    again = (tmp_path / "played").read_text().split()[before:]
    assert not complete & set(map(int, again))  # what was given out is not played again
    assert len(again) <= 24 - 2 * len(complete)


def test_hung_steps_of_sync_environments_are_given_up_and_the_rollout_ends(tmp_path):
    script = textwrap.dedent("""
        import threading, time
        import envweave as ew

        class Hangs(ew.Environment[int, int]):
            def reset(self, *, seed: int | None = None) -> int:
                self.seed = seed
                return 0

            def step(self, action: int):
                if self.seed == 1:
                    threading.Event().wait()
                return 0, 1.0, True, False, {}

        played = ew.rollout(Hangs, lambda _: 1, 3, group_size=3, step_timeout=0.5, progress=False)
        for group in sorted(played, key=lambda group: group.number):
            print(group.rewards, [episode.end for episode in group])
        print(dict(played.summary.failures))
    """)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [
        "[1.0, 1.0, 1.0] ['terminated', 'terminated', 'terminated']",
        "[None, None, None] ['step_timeout', 'step_timeout', 'step_timeout']",
        "[1.0, 1.0, 1.0] ['terminated', 'terminated', 'terminated']",
        "{'step: TimeoutError': 6}",
    ]

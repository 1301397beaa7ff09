"""The command, as a user types it."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

import envweave as ew
from envweave.testing import running_server


def envweave(*arguments, cwd=None):
    command = [sys.executable, "-m", "envweave", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=60)


def data(*arguments):
    done = envweave(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_list_shows_the_names_and_where_they_are_from():
    done = envweave("list")
    assert done.returncode == 0
    assert "lineworld" in done.stdout
    assert {"counter", "lineworld", "nim", "rock-paper-scissors"} <= {spec["id"] for spec in data("list")}


def test_info_shows_the_schema_of_actions_and_observations():
    found = data("info", "lineworld?size=7")
    assert found["kwargs"] == {"size": 7}
    assert found["action_schema"]["properties"]["move"]["enum"] == [-1, 1]
    assert "goal" in found["observation_schema"]["properties"]
    assert data("info", "nim")["first_to_act"] == ["alice"]
    assert "action_schema" in envweave("info", "counter").stdout


@pytest.mark.parametrize(("id", "words"), [("lineworld", "goal:"), ("nim", "You are alice."), ("codeact", "python")])
def test_info_shows_the_first_messages_that_a_model_would_see(id, words):
    messages = data("info", id)["messages"]
    assert messages[-1]["role"] == "user"
    assert words in "".join(message["content"] for message in messages)


def test_info_shows_messages_as_a_model_reads_them_and_its_tools():
    id = "pkg://envweave.examples.warehouse:Warehouse"
    assert [tool["function"]["name"] for tool in data("info", id)["tools"]] == ["look", "take", "ship"]
    shown = [line.strip() for line in envweave("info", "lineworld").stdout.splitlines()]
    place = shown.index("[user]")
    assert shown[place + 1 : place + 4] == ["pos: 0", "goal: 5", "t: 0"]


def test_info_lists_the_number_of_tasks_the_splits_and_the_first_prompts():
    found = data("info", "pkg://envweave.testing.suites.quiz:QuizEnv")["tasks"]
    assert (found["number"], found["splits"]) == (250, {"test": 84, "train": 166})
    assert found["first"] == {"0": "0 + 0?", **{f"add-{n}": f"{n} + {n}?" for n in (1, 2, 3)}, "4": "4 + 4?"}
    assert "not for clients" not in envweave("info", "pkg://envweave.testing.suites.quiz:QuizEnv").stdout
    assert data("info", "counter")["tasks"] is None


def test_run_plays_episodes_and_sums_them_up():
    found = data("run", "lineworld", "--policy", "random", "-n", "5", "--seed", "0")
    assert found["episodes"] == 5
    assert sum(found["ends"].values()) == 5
    assert found["length"]["max"] <= 20
    assert set(found["returns"]) == {"agent"}
    text = envweave("run", "nim", "-n", "3")
    assert text.returncode == 0
    assert "return alice" in text.stdout
    assert "3 episodes (terminated 3)" in text.stdout


def test_run_is_reproducible_by_its_seed():
    first, second = (data("run", "lineworld", "-n", "5", "--seed", "3") for _ in range(2))
    assert first["returns"] == second["returns"]


def test_run_takes_arguments_and_a_policy_from_the_current_folder(tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Env:\n"
        "    def __init__(self, goal=1): self.goal = goal\n"
        "    def reset(self): return 0\n"
        "    def step(self, action: int): return 0, float(action == self.goal), True, False, {}\n"
        "def always_seven(observation, request): return 7\n"
    )
    done = envweave("run", "pkg://mine:Env", "-a", "goal=7", "--policy", "mine:always_seven", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["returns"]["agent"]["mean"] == 1.0


def test_run_survives_an_environment_that_fails_and_says_so_by_its_exit_code(tmp_path):
    (tmp_path / "bad.py").write_text(
        "class Env:\n"
        "    def reset(self, seed=0): self.seed = seed; return 0\n"
        "    def step(self, action: int):\n"
        "        if self.seed % 2: raise OSError('odd')\n"
        "        return 0, 1.0, True, False, {}\n"
    )
    done = envweave("run", "pkg://bad:Env", "-n", "4", "--json", cwd=tmp_path)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["ends"] == {"terminated": 2, "infra_error": 2}
    assert found["returns"]["agent"] == {"mean": 1.0, "std": 0.0, "min": 1.0, "max": 1.0}


def test_check_passes_good_environments_and_explains_bad_ones(tmp_path):
    assert envweave("check", "lineworld").returncode == 0
    (tmp_path / "bad.py").write_text(
        "class Env:\n"
        "    def reset(self, *, seed=None): return 0\n"
        "    def step(self, action: int): return 0, float('nan'), True, False, {}\n"
    )
    done = envweave("check", "pkg://bad:Env", cwd=tmp_path)
    assert done.returncode == 1
    assert "fix:" in done.stdout
    assert json.loads(envweave("check", "pkg://bad:Env", "--json", cwd=tmp_path).stdout)["ok"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "first", "second"),
    [
        (("info", "linewrold"), 2, "no environment named 'linewrold'", "hint: did you mean 'lineworld'?"),
        (("run", "a b"), 2, "'a b' is not an environment ID", "hint: scheme://"),
        (("run", "counter", "-a", "nonsense"), 2, "'nonsense' is not an argument", "hint: write --arg"),
        (("run", "counter", "-a", "colour=red"), 2, "'counter' cannot be made like this", "hint: it takes: start"),
        (("info", "lineworld", "-a", "size=-1"), 1, "the factory of 'lineworld' raised ValueError", None),
        (("run", "counter", "--policy", "clever"), 2, "no policy named 'clever'", "hint: use `random`"),
        (("run", "counter", "-n", "0"), 2, "invalid value for '-n'", "hint: envweave run --help"),
        (("run", "counter", "--nonsense"), 2, "no such option", "hint: envweave run --help"),
        (("dance",), 2, "no such command 'dance'", "hint: envweave --help"),
        (("info",), 2, "missing argument 'ID'", "hint: envweave info --help"),
        (("info", "prime://x/y"), 2, "prime:// environments are not in this version", "hint: needs a later release"),
        (("check", "pkg://nowhere:X"), 2, "there is no module 'nowhere'", "hint: is its package installed"),
        (("check", "nowhere:X"), 2, "there is no module 'nowhere'", "hint: is its package installed"),
        (("info", "gym://CartPole-v1"), 2, "gym:// environments are not in this version", "hint: make it yourself"),
        (("check", "http://127.0.0.1:1"), 1, "cannot reach http://127.0.0.1:1", "hint: is the server running?"),
        (("check", "counter", "--max-steps", "0"), 2, "invalid value for '--max-steps'", "hint: envweave check --help"),
        (
            ("run", "counter", "--policy", "os:getpid"),
            2,
            "policy 'os:getpid': too many positional",
            "hint: it is called",
        ),
        (
            ("run", "counter", "--policy", "json:JSONDecoder"),
            2,
            "policy 'json:JSONDecoder' is not",
            "hint: it is called",
        ),
    ],
)
def test_errors_are_two_lines_and_an_exit_code(arguments, code, first, second):
    done = envweave(*arguments)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code
    assert lines[0].startswith(first)
    assert (len(lines) == 1) if second is None else (len(lines) == 2 and lines[1].startswith(second)), done.stderr
    assert done.stdout == ""


def test_no_arguments_show_the_help():
    done = envweave()
    assert "Usage" in done.stdout + done.stderr
    assert envweave("--help").returncode == 0


@pytest.fixture
def odd(tmp_path):
    (tmp_path / "odd.py").write_text(
        "class Env:\n"
        "    agents = ['[/x]']\n"
        "    def reset(self): print('printed'); return {'[/x]': 0}\n"
        "    def step(self, actions: dict[str, int]):\n"
        "        return {'[/x]': 0}, {'[/x]': 1e308}, {'__all__': True}, {}, {'error': 'wrong answer'}\n"
        "    def close(self): raise OSError('cannot close')\n"
        "class Fails:\n"
        "    def __init__(self): raise OSError('cannot begin')\n"
        "class Fine(Env):\n"
        "    def close(self): pass\n"
    )
    return tmp_path


def test_odd_names_numbers_and_prints_do_not_disturb_a_run(odd):
    done = envweave("run", "pkg://odd:Fine", "-n", "3", "--json", cwd=odd)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["returns"]["[/x]"]["max"] == 1e308
    assert "printed" in done.stderr
    assert "[/x]" in envweave("run", "pkg://odd:Fine", "-n", "1", cwd=odd).stdout


def test_an_environment_that_cannot_begin_or_close_is_reported(odd):
    done = envweave("run", "pkg://odd:Fails", "-n", "2", "--json", cwd=odd)
    assert done.returncode == 1
    assert "cannot begin" in done.stderr
    done = envweave("run", "pkg://odd:Env", "-n", "2", "--json", cwd=odd)
    assert done.returncode == 1
    assert json.loads(done.stdout)["failures"] == {"close: env": 1}


@pytest.fixture
def game(tmp_path):
    (tmp_path / "game.py").write_text(
        "import asyncio\n"
        "class Game:\n"
        "    def reset(self, *, seed=0): self.seed = seed; return seed\n"
        "    def step(self, action: int): return self.seed, float(action), True, False, {}\n"
        "def odd_fails(observation, request):\n"
        "    if observation % 2: raise KeyError('lost')\n"
        "    return 1\n"
        "loops = set()\n"
        "async def patient(observation, request):\n"
        "    await asyncio.sleep(0.001)\n"
        "    loops.add(asyncio.get_running_loop())\n"
        "    return len(loops)\n"
        "def wrong(observation, request): return 'one'\n"
    )
    return tmp_path


def test_a_policy_that_raises_fails_its_episodes_and_not_the_run(game):
    done = envweave("run", "game.py", "--policy", "game:odd_fails", "-n", "4", "--json", cwd=game)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["ends"] == {"terminated": 2, "policy_error": 2}
    assert found["returns"]["agent"]["mean"] == 1.0
    assert found["errors"] == {"KeyError: 'lost'": 2}
    text = envweave("run", "game.py", "--policy", "game:odd_fails", "-n", "4", cwd=game).stdout
    assert "2x KeyError: 'lost'" in text


def test_a_policy_whose_actions_are_all_refused_fails_its_episodes(game):
    done = envweave("run", "game.py", "--policy", "game:wrong", "-n", "2", "--json", cwd=game)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["ends"] == {"policy_error": 2}
    assert "all actions were refused" in next(iter(found["errors"]))


@pytest.mark.parametrize("policy", ["game:patient", "./game.py:patient"])
def test_an_async_policy_is_awaited_in_one_event_loop(game, policy):
    done = envweave("run", "game.py", "--policy", policy, "-n", "3", "--json", cwd=game)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["returns"]["agent"]["max"] == 1.0


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_one_line(option):
    done = envweave(option)
    assert (done.returncode, done.stdout) == (0, f"envweave {version('envweave')}\n")


@pytest.mark.parametrize("id", ["game.py", "./game.py:Game", "game:Game"])
@pytest.mark.parametrize("verb", ["check", "run", "info"])
def test_a_file_and_a_module_of_the_current_folder_are_taken_as_they_are_typed(game, verb, id):
    done = envweave(verb, id, cwd=game)
    assert done.returncode == 0, done.stderr + done.stdout


def test_a_file_runs_on_a_server_of_its_own(game, monkeypatch):
    monkeypatch.chdir(game)
    with ew.make("./game.py", backend="subprocess") as env:
        assert env.reset(seed=5).obs == 5


@pytest.mark.parametrize("id", ["./game.py", "game.py", "game:Game"])
def test_an_image_of_a_single_file_is_refused_with_the_way_to_a_project(game, id):
    done = envweave("build", id, cwd=game)
    assert done.returncode == 2
    assert "with a pyproject.toml that has" in done.stderr


def test_check_takes_the_limits_that_its_fixes_name(tmp_path):
    (tmp_path / "long.py").write_text(
        "class Long:\n"
        "    def reset(self): self.left = 1500; return 0\n"
        "    def step(self, action: int): self.left -= 1; return 0, 0.0, not self.left, False, {}\n"
    )
    short, long = (
        envweave("check", "long.py", *more, "--json", cwd=tmp_path) for more in ([], ["--max-steps", "2000"])
    )
    assert "episode_ends" in {finding["check"] for finding in json.loads(short.stdout)["findings"]}
    assert "episode_ends" in json.loads(long.stdout)["passed"]


def test_check_plays_on_a_server():
    with running_server("lineworld") as served:
        report = data("check", served.url)
    assert report["ok"]
    assert {"seed_repeats_across_instances", "episode_ends", "close"} <= set(report["passed"])


def test_a_terminal_without_our_signs_still_gets_the_text():
    command = [sys.executable, "-m", "envweave", "check", "counter"]
    env = {"PYTHONIOENCODING": "ascii", "PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(command, capture_output=True, check=False, env=env, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"seed_repeats" in done.stdout


def test_doctor_says_which_walls_stand_and_why():
    report = data("doctor")
    assert report["isolation"] in ("namespace", "landlock")
    assert {"seccomp", "landlock", "user namespace", "memory cgroup", "rlimits"} <= set(report["layers"])
    assert all(layer["why"] for layer in report["layers"].values())
    done = envweave("doctor")
    assert done.returncode == 0
    assert report["isolation"] in done.stdout

"""`envweave serve`, as somebody who has never used it types it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from websockets.sync.client import connect

import envweave as ew
from envweave.errors import EnvError, ProviderError
from envweave.testing.serving import running_server

ENVIRONMENTS = """
import os, threading, time
from pathlib import Path

class Leaving:
    "Writes down that it was closed."
    def __init__(self, *, where="."): self.where = where
    def reset(self): return 0
    def step(self, action): return action
    def close(self): Path(self.where, f"closed-{os.getpid()}-{id(self)}").touch()

class Stuck(Leaving):
    "Its step takes longer than anybody waits."
    def step(self, action):
        Path(self.where, "begun").write_text("")  # a pipe, which somebody reads
        time.sleep(3600)

class OneThread:
    "Counts the threads that have touched it."
    REQUIRES_SINGLE_THREAD_EXECUTOR = True
    def __init__(self): self.threads = {threading.get_ident()}
    def reset(self): return self.step(0)
    def step(self, action):
        self.threads.add(threading.get_ident())
        return len(self.threads)

def one_thread(): return OneThread()

class Where:
    "Says in which process it lives, and what it can see there."
    def reset(self): return 0
    def step(self, action):
        if action == "die": os._exit(7)
        return {"pid": os.getpid(), "token": os.environ.get("ENVWEAVE_TOKEN")}

class Ending:
    "Ends its episodes as it is told to."
    def reset(self): return {}
    def step(self, action):
        if action == "fail": raise ValueError("no step today")
        return {"metadata": {"truncated": action == "cut"}}, 1.0, action == "end", action == "cut", {}

class Broken:
    def __init__(self): raise OSError("no such device")
    def reset(self): return 0
    def step(self, action): return 0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("environments")
    (path / "mine.py").write_text(ENVIRONMENTS)
    return path


def envweave(*arguments, **options):
    command = [sys.executable, "-m", "envweave", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


def ask(ws, type, data=None):
    ws.send(json.dumps({"type": type} if data is None else {"type": type, "data": data}))
    return json.loads(ws.recv(timeout=30))


# The command line.


def test_help_says_what_can_be_chosen():
    done = envweave("serve", "--help", env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 0
    options = "--host --port --token --max-sessions --isolation --idle-timeout --resume-within --step-timeout --origin"
    assert [option for option in options.split() if option not in done.stdout] == []
    assert "ENVWEAVE_TOKEN" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ecko",), "no environment named 'ecko'\nhint: did you mean 'echo'?\n"),
        (("pkg://nowhere:Env",), "there is no module 'nowhere'\nhint: is its package installed here?\n"),
        (("echo", "--isolation", "vm"), "'vm' is not one of"),
        (("echo", "--port", "70000"), "65535"),
        (("echo", "--log-level", "loud"), "'loud' is not one of"),
        (("echo", "--token", " "), "the token is empty\nhint: leave it out, or use a long random one\n"),
        (("echo", "--arg", "colour=red"), "'echo' cannot be made like this"),
        ((), "missing argument 'ID'"),
    ],
)
def test_a_mistake_is_told_in_two_lines(arguments, said):
    done = envweave("serve", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_port_in_use_is_told_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = envweave("serve", "echo", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr.startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert done.stderr.endswith("hint: choose another port, or --port 0 for a free one\n")


def test_a_host_that_is_none_is_told():
    done = envweave("serve", "echo", "--host", "256.1.1.1")
    assert done.returncode == 1
    assert "cannot listen on 256.1.1.1:8000" in done.stderr


def run_without(packages, code):
    """Run Python code on a machine that seems not to have some packages."""
    blocker = (
        "import sys\n"
        "class Blocker:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {packages!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Blocker())\n"
    )
    return subprocess.run([sys.executable, "-c", blocker + code], capture_output=True, text=True, timeout=60)


def test_without_the_extra_it_says_how_to_install_it():
    serve = "sys.argv = ['envweave', 'serve', 'counter']\nfrom envweave.cli import main\nmain()\n"
    done = run_without(("starlette", "uvicorn"), serve)
    assert done.returncode == 2
    assert done.stderr == "'starlette' is not installed\nhint: pip install 'envweave[server]'\n"


@pytest.mark.parametrize(
    "call", ["make('ws://localhost:1')", "connect('http://localhost:1')", "make_vector('ws://x', 2)"]
)
def test_without_its_extra_a_client_says_how_to_install_it(call):
    done = run_without(("httpx", "msgspec", "websockets"), f"import envweave as ew\new.{call}\n")
    assert "UnavailableError" in done.stderr
    assert "hint: pip install 'envweave[client]'" in done.stderr


def test_others_can_come_in_only_with_a_word_of_warning():
    with running_server("echo", "--host", "0.0.0.0") as served:
        assert "warning: other machines can reach 0.0.0.0, and no token is set" in served.errors()
    with running_server("echo", "--host", "0.0.0.0", "--token", "secret") as served:
        assert "warning" not in served.errors()


@pytest.mark.parametrize("token", [(), ("--token", "secret")], ids=["no token", "token"])
def test_it_says_where_its_pages_are(token):
    command = [sys.executable, "-m", "envweave", "serve", "echo", "--port", "0", *token]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            first, second = process.stdout.readline(), process.stdout.readline()
            url = re.fullmatch(r"serving echo at (\S+) \(pid \d+\); Ctrl-C stops\n", first)[1]
            pages = re.findall(r"http://[^\s,]+", second)
            headers = {"Authorization": "Bearer secret"} if token else {}
            answers = [httpx.get(page, headers=headers) for page in pages]
        finally:
            process.terminate()
    assert pages == [f"{url}/web", f"{url}/docs"]
    assert [answer.headers["content-type"] for answer in answers] == ["text/html; charset=utf-8"] * 2
    assert ("(with the token)" in second) == bool(token)


def test_a_server_that_cannot_start_says_why_to_the_test_that_wanted_it():
    with pytest.raises(ProviderError, match="did you mean 'echo'"), running_server("ecko"):
        pass


def test_an_environment_that_cannot_be_built_costs_its_client_not_the_server(folder):
    with running_server("pkg://mine:Broken", cwd=folder) as served:
        for _ in range(2):
            with connect(served.ws_url) as ws:
                told = json.loads(ws.recv(timeout=30))["data"]
                assert told["code"] == "FACTORY_ERROR"
                assert "no such device" in told["message"]
        assert httpx.post(f"{served.url}/reset").status_code == 500
        assert httpx.get(f"{served.url}/health").status_code == 200


# The end.


@pytest.mark.parametrize(("number", "isolation"), [(signal.SIGTERM, "thread"), (signal.SIGINT, "process")])
def test_when_it_is_told_to_stop_it_closes_every_environment(folder, tmp_path, number, isolation):
    options = ("--arg", f"where={tmp_path}", "--isolation", isolation)
    with running_server("pkg://mine:Leaving", *options, cwd=folder) as served:
        with connect(served.ws_url) as ws, connect(served.ws_url) as idle:
            ask(ws, "reset")
            ask(ws, "step", 1)
            ask(idle, "reset")
            assert httpx.post(f"{served.url}/reset").status_code == 200
            os.kill(served.pid, number)
            assert served.process.wait(timeout=30) == 0
        assert len(list(tmp_path.glob("closed-*"))) == 3
        assert "Traceback" not in served.errors()


def test_an_environment_that_is_stuck_does_not_keep_it_from_ending(folder, tmp_path):
    os.mkfifo(tmp_path / "begun")
    with (
        running_server("pkg://mine:Stuck", "--arg", f"where={tmp_path}", "--close-timeout", "1", cwd=folder) as served,
        connect(served.ws_url) as ws,
        connect(served.ws_url) as other,
    ):
        ask(ws, "reset")
        ask(other, "reset")
        ws.send('{"type":"step","data":1}')
        assert (tmp_path / "begun").read_text() == ""
        os.kill(served.pid, signal.SIGTERM)
        assert served.process.wait(timeout=60) == 0
    assert len(list(tmp_path.glob("closed-*"))) == 1


# While it runs.


def test_the_log_can_be_read_by_machines(folder):
    with running_server("echo", "--log", "json", "--log-level", "debug") as served:
        with connect(served.ws_url) as ws:
            ask(ws, "reset")
        assert httpx.post(f"{served.url}/sessions", json={"env_id": "mine"}).status_code == 201
        lines = [json.loads(line) for line in served.errors().splitlines()]
    opened = [line for line in lines if line["message"] == "session opened"]
    assert {line["env_id"] for line in opened} == {"echo#0", "mine"}
    assert all({"time", "level", "logger"} <= line.keys() for line in lines)


def test_a_quiet_server_writes_nothing():
    with running_server("echo") as served:
        with connect(served.ws_url) as ws:
            ask(ws, "reset")
        assert served.errors() == ""


def test_metrics_count_what_was_done():
    with (
        running_server("echo", "--max-sessions", "2") as served,
        connect(served.ws_url) as ws,
        connect(served.ws_url) as other,
        connect(served.ws_url) as third,
    ):
        ask(ws, "reset")
        ask(other, "reset")
        assert json.loads(third.recv(timeout=30))["data"]["code"] == "CAPACITY_REACHED"
        for _ in range(3):
            ask(ws, "step", {"message": "hi"})
        ask(ws, "step", {"massage": "hi"})
        found = metrics(served)
    assert found["envweave_sessions"] == 2
    assert found["envweave_sessions_opened_total"] == 2
    assert found["envweave_sessions_refused_total"] == 1
    assert found['envweave_calls_total{call="reset"}'] == 2
    assert found['envweave_calls_total{call="step"}'] == 4
    assert found['envweave_errors_total{code="usage.invalid_action"}'] == 1
    assert found["envweave_step_seconds_count"] == 4
    assert found["envweave_step_seconds_sum"] > 0
    assert found["envweave_loop_lag_seconds"] >= 0


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_metrics_count_the_ends_of_episodes_by_their_reason(folder, isolation):
    with running_server("pkg://mine:Ending", "--isolation", isolation, cwd=folder) as served:
        with ew.make(served.ws_url) as env:
            for action in ("end", "cut", "cut"):
                env.reset()
                for _ in range(50):  # quick steps may take another path than the first ones
                    env.step("go on")
                env.step(action)
            env.reset()
            with pytest.raises(EnvError):
                env.step("fail")
            env.reset()
            env.reset()
        found = metrics(served)
        assert found['envweave_episodes_total{reason="terminated"}'] == 1
        assert found['envweave_episodes_total{reason="truncated"}'] == 2
        assert found['envweave_episodes_total{reason="infra_error"}'] == 1
        assert found['envweave_episodes_total{reason="closed"}'] == 2, "one was given up by reset, one by close"


def test_metrics_count_the_episodes_of_openenvs_clients_too(folder):
    with running_server("pkg://mine:Ending", cwd=folder) as served:
        with connect(served.ws_url) as ws:
            for action in ("end", "cut", "cut", "fail", "go on", "go on", "end"):
                ask(ws, "reset")
                ask(ws, "step", action)
        for action in ("end", "go on"):
            httpx.post(f"{served.url}/reset")
            httpx.post(f"{served.url}/step", json={"action": action})
        httpx.post(f"{served.url}/reset")
        found = metrics(served)
    assert found['envweave_episodes_total{reason="terminated"}'] == 3
    assert found['envweave_episodes_total{reason="truncated"}'] == 2
    assert found['envweave_episodes_total{reason="infra_error"}'] == 1
    assert found['envweave_episodes_total{reason="closed"}'] == 3


def test_the_death_of_a_process_is_counted_as_the_end_of_its_episode(folder):
    with running_server("pkg://mine:Where", "--isolation", "process", cwd=folder) as served:
        with connect(served.ws_url) as ws:
            ask(ws, "reset")
            ask(ws, "step", "die")
        assert metrics(served)['envweave_episodes_total{reason="infra_error"}'] == 1


def metrics(served):
    lines = httpx.get(f"{served.url}/metrics").text.splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def test_with_isolation_each_session_has_a_process_whose_death_is_its_own(folder):
    with running_server(
        "pkg://mine:Where", "--isolation", "process", cwd=folder, env={"ENVWEAVE_TOKEN": "s"}
    ) as served:
        headers = {"Authorization": "Bearer s"}
        with (
            connect(served.ws_url, additional_headers=headers) as one,
            connect(served.ws_url, additional_headers=headers) as other,
        ):
            ask(one, "reset")
            ask(other, "reset")
            first = ask(one, "step", 0)["data"]["observation"]
            second = ask(other, "step", 0)["data"]["observation"]
            assert len({first["pid"], second["pid"], served.pid}) == 3
            assert first["token"] is None, "the token is not the environment's business"
            died = ask(one, "step", "die")["data"]
            assert "died in step (exit code 7)" in died["message"]
            assert died["requests"][0]["reason"] == "infra_error"
            assert ask(other, "step", 0)["data"]["observation"]["pid"] == second["pid"]
            ask(one, "reset")
            assert ask(one, "step", 0)["data"]["observation"]["pid"] not in (first["pid"], second["pid"])


@pytest.mark.parametrize("name", ["OneThread", "one_thread"])
def test_an_environment_that_wants_one_thread_has_it_and_leaves_none_behind(folder, name):
    with running_server(f"pkg://mine:{name}", cwd=folder) as served:
        for _ in range(5):
            with connect(served.ws_url) as ws:
                ask(ws, "reset")
                assert {ask(ws, "step", 0)["data"]["observation"] for _ in range(50)} == {1}
                ws.send('{"type":"close"}')
                assert list(ws) == []
        with connect(served.ws_url) as ws:
            ask(ws, "reset")
            named = [_thread_name(served.pid, id) for id in os.listdir(f"/proc/{served.pid}/task")]
        assert named.count("envweave-step") <= 2


def _thread_name(pid, id):
    try:
        with open(f"/proc/{pid}/task/{id}/comm") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""

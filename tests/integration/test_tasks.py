"""Tasks on real servers: OpenEnv's own form, coroutines, servers and environments that die, files on the server."""

import asyncio
import json
import os
import signal
import textwrap

import httpx
import pytest
from websockets.sync.client import connect

import envweave as ew
from envweave.client import EnvClient, HTTPEnvClient
from envweave.errors import SessionLostError, TaskNotFoundError, UnsupportedError
from envweave.testing.serving import running_server
from envweave.testing.suites.quiz import QUIZ, SECRET, QuizEnv


@pytest.fixture(scope="module")
def url():
    with running_server(QUIZ) as server:
        yield server.url


def test_openenvs_websocket_takes_a_task_and_names_it_in_the_metadata(url):
    with connect(url.replace("http", "ws") + "/ws") as socket:

        def ask(**message):
            socket.send(json.dumps(message))
            return json.loads(socket.recv())

        for task, id in ((7, "add-7"), ("add-7", "add-7"), ({"id": "mine", "prompt": "p", "answer": "x"}, "mine")):
            reply = ask(type="reset", data={"task": task})
            assert reply["data"]["metadata"] == {"task_id": id}
        assert ask(type="reset", data={"seed": 7, "task": None})["data"]["metadata"] == {"task_id": "add-7"}
        assert "metadata" not in ask(type="step", data="later")["data"]
        assert ask(type="step", data="14")["data"] == {
            "observation": {"prompt": "7 + 7?"},
            "reward": 1.0,
            "done": True,
            "metadata": {"task_id": "add-7"},
        }
        refused = ask(type="reset", data={"task": "add-07"})
        assert refused["data"]["error"]["code"] == "usage.task_not_found"


def test_plain_http_takes_a_task_and_lists_them(url):
    with httpx.Client(base_url=url) as client:
        assert client.post("/reset", json={"task": "add-7"}).json()["metadata"] == {"task_id": "add-7"}
        refused = client.post("/reset", json={"task": 250})
        assert (refused.status_code, refused.json()["error"]["hint"]) == (422, "tasks are numbered 0 to 249")
        listed = client.post("/tasks", json={"first": 7, "count": 1})
        assert listed.json() == {
            "number": 250,
            "splits": {"test": 84, "train": 166},
            "tasks": [{"id": "add-7", "split": "train", "prompt": "7 + 7?"}],
        }
        assert len(client.post("/tasks").json()["tasks"]) == 250
        assert SECRET not in client.post("/tasks").text
        for wrong in ({"first": -1}, {"count": "x"}, {"split": "dev"}, {"task": 1.5}):
            assert client.post("/tasks", json=wrong).status_code == 422
        with running_server("lineworld") as server:
            assert httpx.post(f"{server.url}/tasks").json()["error"]["code"] == UnsupportedError.code


@pytest.mark.parametrize("client", [EnvClient, HTTPEnvClient])
def test_a_coroutine_fetches_the_list_first(url, client):
    async def play():
        async with client(url) as env:
            with pytest.raises(ew.UsageError, match="not known here yet") as refused:
                len(env.tasks)
            assert "await env.tasks.fetch()" in refused.value.hint
            tasks = await env.tasks.fetch()
            assert (len(tasks), tasks.ids, tasks.splits) == (250, QuizEnv.tasks.ids, QuizEnv.tasks.splits)
            test = await env.tasks.split("test").fetch()
            assert (await env.reset(task=test.ids[1])).info["task_id"] == "add-3"
            with pytest.raises(TaskNotFoundError):
                env.tasks.split("dev")

    asyncio.run(play())


def test_a_list_is_asked_for_in_parts_and_each_part_once(url):
    calls = []

    def watch(kind, data):
        calls.append((kind, data))
        return (yield kind, data)

    from envweave.core.task_listing import TaskListing

    with ew.make(url) as env:
        listing = TaskListing(env.with_middleware(watch).backend)
        assert listing[0].id == "0"
        assert [listing[n].id for n in (1, 99)] == ["add-1", "add-99"]
        assert len(listing) == 250
        assert [kind for kind, _ in calls] == ["tasks", "tasks"]
        assert listing[100].id == "100"
        assert listing.ids == QuizEnv.tasks.ids
        assert [data.get("first") for _, data in calls] == [0, 0, 100]


def test_the_tasks_of_a_client_that_is_not_connected_are_known_after_connecting(url):
    client = EnvClient(url)
    with pytest.raises(ew.UsageError, match="not connected yet"):
        _ = client.backend.tasks
    assert len(client.tasks) == 250
    client.close()


def test_an_environment_that_dies_on_a_server_names_its_task(tmp_path):
    (tmp_path / "dies.py").write_text(
        textwrap.dedent("""
        import os
        from envweave.testing.suites.quiz import QuizEnv

        class Dies(QuizEnv):
            def step(self, action: str):
                os._exit(1)
        """)
    )
    with running_server(f"{tmp_path}/dies.py:Dies", "--isolation", "process") as server, ew.make(server.url) as env:
        env.reset(task="add-7")
        with pytest.raises(ew.EnvWeaveError) as lost:
            env.step("x")
        (end,) = lost.value.requests
        assert (end.reason, end.final_info["task_id"]) == ("infra_error", "add-7")
        assert env.reset(task="add-9").info["task_id"] == "add-9"


def test_a_server_that_dies_leaves_the_name_of_the_task():
    with running_server(QUIZ) as server, ew.make_vector(server.url, 2, autoreset=True) as vector:
        vector.reset(task=["add-7", "add-9"])
        killed(server)
        batch = vector.step(["later", "later"])
        assert [info["task_id"] for info in batch.info] == ["add-7", "add-9"]
        ends = [request for requests in batch.requests for request in requests if isinstance(request, ew.EpisodeEnd)]
        assert [end.final_info["task_id"] for end in ends] == ["add-7", "add-9"]
        assert all(failure["code"] == SessionLostError.code for failure in batch.failures.values())


def killed(server):
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait()


def lost_task(env):
    """The task in the end of an episode whose server is gone."""
    with pytest.raises(SessionLostError) as lost:
        env.step("later")
    (end,) = lost.value.requests
    return end.final_info["task_id"]


def test_the_end_of_a_lost_session_names_the_task_that_autoreset_has_drawn():
    with running_server(QUIZ) as server, ew.make(server.url, autoreset=True, connect_timeout_s=1.0) as env:
        env.reset(seed=7)
        ready = next(request for request in env.step("x").requests if isinstance(request, ew.AutoresetReady))
        killed(server)
        assert lost_task(env) == ready.initial_info["task_id"] != "add-7"


def test_the_end_of_a_lost_session_names_the_task_that_was_restored_or_forked():
    with (
        running_server(QUIZ, "--allow-branching") as server,
        ew.make(server.url, connect_timeout_s=1.0) as env,
    ):
        env.reset(task="add-7")
        here = env.snapshot()
        env.reset(task="add-9")
        with env.fork() as twin:
            env.restore(here)
            killed(server)
            assert lost_task(env) == "add-7"
            assert lost_task(twin) == "add-9"


def test_a_malformed_line_is_reported_to_the_client_with_file_and_line(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": "a", "prompt": "p"}\n{"id": \n')
    (tmp_path / "files.py").write_text(
        textwrap.dedent(f"""
        import envweave as ew

        class Files:
            tasks = ew.Tasks.from_jsonl({str(path)!r})

            def reset(self, *, task):
                return task.prompt

            def step(self, action):
                return 0, 1.0, True, False, {{}}
        """)
    )
    with running_server(f"{tmp_path}/files.py:Files") as server, ew.make(server.url) as env:
        assert env.reset(task=0).obs == "p"
        for arguments in ({"task": 1}, {"seed": 1}, {"task": "b"}):
            with pytest.raises(ew.UsageError, match=r"tasks\.jsonl:2 is not JSON"):
                env.reset(**arguments)
        assert env.step(0).info == {"task_id": "a"}


def test_a_subprocess_backend_has_the_same_tasks():
    with ew.make(QUIZ, backend="subprocess") as env:
        assert env.reset(task="add-7").info == {"split": "train", "task_id": "add-7"}
        assert env.tasks.ids == QuizEnv.tasks.ids

"""Tasks of the code environments on servers: the same conversations as in this process, and no answer on the wire."""

import json

import httpx
import pytest

import envweave as ew
from envweave.client import EnvClient
from envweave.envs.code_tasks import open_tasks
from envweave.testing.serving import running_server

CANARY = "canary-8274619"
TASK = open_tasks("programming")[0]
REPLIES = {
    "codeact": ["Let me look.\n```python\nprint(6 * 7)\n```", "?", "```python\n1 / 0\n```", "SOLUTION submit()"],
    "coding": ["```python\nprint(6 * 7)\n```", "?", "```python\nimport time\n```", "SOLUTION submit()"],
    "repl": ["```repl\nprint(6 * 7)\n```", "?", "```repl\n1 / 0\n```", "SOLUTION FINAL('done')"],
}


def replies(id):
    for reply in REPLIES[id]:
        mark, _, submit = reply.partition(" ")
        yield f"```python\n{TASK['solution']}\n{submit}\n```" if mark == "SOLUTION" else reply


def play(env, id):
    """A whole conversation of a model that says what the script says, and how it ended."""
    result = env.reset(task=TASK.id)
    conversation = list(result.obs.messages)
    for reply in replies(id):
        assert not result.done
        result = env.step(reply)
        conversation += [{"role": "assistant", "content": reply}, *result.obs.messages]
    return conversation, result.reward, result.terminated, result.info["tests"], result.info["remaining"]


@pytest.mark.parametrize("id", REPLIES)
def test_a_model_plays_a_whole_episode_here_and_on_a_server(id):
    with ew.make(id, tasks="programming", chat=True) as env:
        here = play(env, id)
    conversation, reward, terminated, tests, _ = here
    assert (reward, terminated, tests["passed"]) == (1.0, True, len(TASK["tests"]))
    assert [message["role"] for message in conversation[:3]] == ["system", "user", "assistant"]
    assert TASK.prompt.strip() in conversation[1]["content"]
    assert "42" in conversation[3]["content"]
    assert not any("envweave" in message["content"] for message in conversation)
    with running_server(f"{id}?tasks=programming") as server, EnvClient(server.url, chat=True) as env:
        assert play(env, id) == here


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """All tasks that ship, each with a mark in its solution and in its first test."""
    mark = {"args": [CANARY], "expected": CANARY}
    rows = [{**task, "tests": [mark, *task["tests"]], "solution": CANARY} for task in open_tasks("programming")]
    rows.append({"id": "answer", "prompt": "What is it?", "answer": CANARY, "solution": CANARY})
    file = tmp_path_factory.mktemp("tasks") / "marked.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def wrong_code(task, submit):
    """Prints what it is given, and returns something else."""
    if "function" not in task:
        return "print(dir())"
    return f"def {task['function']}(*args):\n    print(args)\n    return args[0] + '!'\n{submit}"


@pytest.mark.parametrize("id", ["codeact", "coding", "repl"])
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_no_hidden_field_reaches_a_client(path, id, isolation):
    received = []
    submit = "FINAL('done')" if id == "repl" else "submit()"
    server_options = ("--isolation", isolation, "--log-level", "debug")
    with running_server(f"{id}?tasks={path}", *server_options) as server, ew.make(server.url) as env:
        received += [list(env.tasks), env.tasks.ids]
        for task in ew.Tasks.from_jsonl(path):
            received.append(env.reset(task=task.id))
            result = env.step({"code": wrong_code(task, submit)})
            received += [result, env.state()]
            assert result.reward == 0.0
            if "function" in task:
                assert (result.terminated, result.info["tests"]["passed"]) == (True, 0)
        for row in ({"answer": CANARY}, {"prompt": "?", "function": "f", "tests": [{"args": CANARY, "expected": 1}]}):
            with pytest.raises(ew.UsageError) as raised:
                env.reset(task=row)
            received.append(str(raised.value))
        with httpx.Client(base_url=server.url) as http:
            received += [http.post("/reset", json={"task": "answer"}).text]
            received += [http.post("/step", json={"action": {"code": "print(dir())"}}).text]
            received += [
                http.get(page).text for page in ("/state", "/metadata", "/schema", "/metrics", "/openapi.json")
            ]
        received.append(server.errors())
    assert "What is it?" in str(received)
    assert CANARY not in str(received)


@pytest.mark.parametrize("tasks", ["programming", "/etc/passwd", [{"prompt": "?", "answer": 1}]])
@pytest.mark.parametrize("id", ["codeact", "repl"])
def test_tasks_are_the_operators_to_choose(id, tasks):
    refused = pytest.raises(ew.UsageError, match="'tasks' is for the server's operator to choose")
    with running_server(id, "--allow-arguments") as server, refused:
        ew.make(server.url, tasks=tasks).reset()


def test_a_client_selects_among_the_tasks_of_a_server_and_may_send_rows_of_its_own():
    with running_server("coding?tasks=programming&max_steps=3") as server, ew.make(server.url) as env:
        assert len(env.tasks) == len(open_tasks("programming"))
        assert env.reset(seed=2).info["task_id"] == env.tasks[2].id
        assert env.reset(task=TASK.id).info["remaining"] == {"steps": 3}
        own = {"id": "mine", "prompt": "1 + 2?", "answer": 3, "max_steps": 100}
        assert env.reset(task=own).info["remaining"] == {"steps": 3}
        assert env.step({"code": "submit(3)"}).reward == 1.0
        with pytest.raises(ew.UsageError, match="that of the environment is"):
            env.reset(task={**own, "limits": {"memory_bytes": 1 << 40}})

"""Records in the formats of other tools, each read by the other side where it is installed."""

import importlib.util
import json
import subprocess
import sys

import pytest

import envweave as ew
from envweave.errors import RecordError, UnavailableError, UnsupportedError
from envweave.lm.messages import FunctionCall, Message
from envweave.lm.reply import Reply, Usage
from envweave.record import Record, Recorder
from envweave.record.atif import export_atif, import_atif, to_atif
from envweave.record.conversation import conversation
from envweave.record.messages import export_messages, import_messages
from envweave.record.minari import export_minari, import_minari
from envweave.record.parquet import export_parquet, import_parquet
from envweave.results import ResetResult, StepResult
from support.need import need

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def talk(run, reward, group="g", finish="stop"):
    """An episode of a model: a tool call, and then an answer."""
    log = run.episode(env="talk", seed=1, group=group, policy={"name": "m", "version": 3}, task={"id": "t"})
    begin = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is there?"}]
    log.reset(ResetResult({"messages": begin, "tools": TOOLS}))
    call = Message("assistant", None, tool_calls=(FunctionCall("c1", "look", '{"at": 1}'),), reasoning="hm")
    log.model(Reply(call, "tool_calls", Usage(1, 0, 10, 4), (1, 2), (3,), (-0.5,), model="m"))
    seen = {"messages": [{"role": "tool", "tool_call_id": "c1", "content": "a cat"}], "tools": TOOLS}
    log.step(call, StepResult(seen, None), call_id="c1")
    answer = Message("assistant", "A cat.")
    log.model(Reply(answer, finish, Usage(1, 0, 20, 2), model="m"))
    log.step(answer, StepResult({"messages": [], "tools": TOOLS}, reward, True))
    log.end("terminated" if reward is not None else "infra_error")
    return log.id


@pytest.fixture
def record(tmp_path):
    with Recorder(tmp_path / "run") as run:
        for reward in (0.25, 1.0, None):
            talk(run, reward)
        talk(run, 0.5, group="h", finish="length")
    return Record(tmp_path / "run")


def test_an_episode_is_a_conversation(record):
    messages, tools = conversation(record[0])
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[2]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": 1}'}
    assert messages[3]["tool_call_id"] == messages[2]["tool_calls"][0]["id"]
    assert messages[4]["content"] == "A cat."
    assert tools == TOOLS


def test_messages_of_scored_episodes_are_exported(record, tmp_path):
    out = tmp_path / "out.jsonl"
    assert export_messages(record, out) == 3
    assert export_messages(record, out, min_reward=0.5) == 2
    assert export_messages(record, out, best_of_group=True, weight=True) == 2
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [[m.get("weight") for m in row["messages"] if m["role"] == "assistant"] for row in rows] == [[1, 1], [1, 0]]


def test_messages_that_are_imported_are_the_same_conversation(record, tmp_path):
    out, again = tmp_path / "out.jsonl", tmp_path / "again"
    export_messages(record, out)
    with Recorder(again) as run:
        assert import_messages(out, run) == 3
    assert [conversation(episode) for episode in Record(again)] == [
        conversation(episode) for episode in record if episode.returns
    ]
    out.write_text('{"text": "no"}\n')
    with Recorder(again) as run, pytest.raises(RecordError, match=r"line 1 of .* is not a conversation"):
        import_messages(out, run)


def test_actions_that_are_not_messages_are_exported_as_json(tmp_path):
    with ew.make("lineworld", record=tmp_path) as env:
        env.reset(seed=0)
        env.step({"move": 1})
    messages, _ = conversation(Record(tmp_path)[0])
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert json.loads(messages[1]["content"]) == {"move": 1}


def test_a_fork_is_a_conversation_from_the_reset_of_its_parent(tmp_path):
    def say(log, text, reward=None):
        log.model(Reply(Message("assistant", text), "stop", model="m"))
        seen = {"messages": [{"role": "user", "content": f"{text}?"}]}
        log.step(Message("assistant", text), StepResult(seen, reward, reward is not None))

    with Recorder(tmp_path) as run:
        log = run.episode(env="talk")
        log.reset(ResetResult({"messages": [{"role": "user", "content": "hello"}]}))
        say(log, "one")
        branch = log.fork()
        say(log, "two", 1.0)
        say(branch, "three", 0.5)
        for each in (log, branch):
            each.end("terminated")
    parent, fork = Record(tmp_path)
    texts = [message["content"] for message in conversation(fork)[0]]
    assert texts == ["hello", "one", "one?", "three", "three?"]
    assert [message["content"] for message in conversation(parent)[0]][3] == "two"
    assert len(to_atif(fork)["steps"]) == 3


def test_a_trajectory_of_atif_has_tool_calls_results_and_tokens(record):
    found = to_atif(record[0])
    assert (found["schema_version"], found["session_id"], found["trajectory_id"]) == ("ATIF-v1.7", "g", record[0].id)
    assert [step["source"] for step in found["steps"]] == ["system", "user", "agent", "agent"]
    assert [step["step_id"] for step in found["steps"]] == [1, 2, 3, 4]
    call = found["steps"][2]
    assert call["tool_calls"] == [{"tool_call_id": "c1", "function_name": "look", "arguments": {"at": 1}}]
    assert call["observation"]["results"][0]["source_call_id"] == "c1"
    assert call["metrics"]["completion_token_ids"] == [3]
    assert found["final_metrics"]["total_prompt_tokens"] == 30
    assert found["extra"]["envweave"]["end"]["return"] == {"agent": 0.25}


def test_trajectories_that_are_imported_keep_messages_rewards_and_tokens(record, tmp_path):
    assert export_atif(record, tmp_path / "atif") == 4
    with Recorder(tmp_path / "again") as run:
        assert import_atif(tmp_path / "atif", run) == 4
    again = Record(tmp_path / "again")
    for episode in record:
        twin = again[episode.id]
        assert conversation(twin) == conversation(episode)
        assert twin.returns == episode.returns
        assert [step["reward"] for step in twin.steps] == [step["reward"] for step in episode.steps]
        assert (twin.header["seed"], twin.header["env"], twin.end["reason"]) == (1, "talk", episode.end["reason"])
        tokens = [event.get("tokens") for event in episode.events if event["kind"] == "model"]
        assert [event.get("tokens") for event in twin.events if event["kind"] == "model"] == tokens
        assert to_atif(twin) == to_atif(episode)


FOREIGN = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s",
    "agent": {"name": "a", "version": "1", "model_name": "m"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {
            "step_id": 2,
            "source": "user",
            "message": [
                {"type": "text", "text": "look"},
                {"type": "image", "source": {"media_type": "image/png", "path": "i.png"}},
            ],
        },
        {
            "step_id": 3,
            "source": "agent",
            "message": "",
            "tool_calls": [
                {"tool_call_id": "c", "function_name": "f", "arguments": {"a": 1}},
                {"tool_call_id": "d", "function_name": "g", "arguments": {}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "c", "content": "x"},
                    {"source_call_id": "d", "content": [{"type": "text", "text": "y"}]},
                ]
            },
        },
        {"step_id": 4, "source": "agent", "message": "done"},
    ],
}
"""A trajectory of another tool."""


def test_a_trajectory_of_another_tool_is_imported_and_exported(tmp_path):
    (tmp_path / "foreign.json").write_text(json.dumps(FOREIGN))
    with Recorder(tmp_path / "run") as run:
        assert import_atif(tmp_path / "foreign.json", run) == 1
    (episode,) = Record(tmp_path / "run")
    messages, _ = conversation(episode)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert [call["id"] for call in messages[2]["tool_calls"]] == ["c", "d"]
    again = to_atif(episode)
    assert [step["message"] for step in again["steps"]] == [step["message"] for step in FOREIGN["steps"]]
    results = [
        {name: result[name] for name in ("source_call_id", "content")}
        for result in again["steps"][2]["observation"]["results"]
    ]
    assert results == FOREIGN["steps"][2]["observation"]["results"]
    assert (again["session_id"], again["agent"]["model_name"]) == ("s", "m")


def test_harbor_accepts_our_trajectories(record, tmp_path):
    if importlib.util.find_spec("harbor") is None:
        need("harbor", "harbor is not installed (it needs Python 3.12)")
    export_atif(record, tmp_path / "atif")
    with ew.make("lineworld", record=tmp_path / "line") as env:
        env.reset(seed=0)
        env.step({"move": 1})
    export_atif(Record(tmp_path / "line"), tmp_path / "atif")
    (tmp_path / "foreign.json").write_text(json.dumps(FOREIGN))
    with Recorder(tmp_path / "foreign") as run:
        import_atif(tmp_path / "foreign.json", run)
    export_atif(Record(tmp_path / "foreign"), tmp_path / "atif")
    from harbor.models.trajectories import Trajectory

    for path in (tmp_path / "foreign.json", *(tmp_path / "atif").glob("*.json")):
        Trajectory.model_validate_json(path.read_text())


def test_parquet_has_a_row_for_each_episode_and_step(record, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    assert export_parquet(record, tmp_path / "parquet") == 4
    episodes = pq.read_table(tmp_path / "parquet" / "episodes.parquet").to_pylist()
    steps = pq.read_table(tmp_path / "parquet" / "steps.parquet").to_pylist()
    assert [row["return"] for row in episodes] == [0.25, 1.0, None, 0.5]
    assert [row["reason"] for row in episodes] == ["terminated", "terminated", "infra_error", "terminated"]
    assert dict(episodes[0]["returns"]) == {"agent": 0.25}
    assert (episodes[0]["task"], episodes[0]["policy"], episodes[0]["seed"]) == ("t", "m", 1)
    assert len(steps) == 20
    assert [row["kind"] for row in steps[:5]] == ["reset", "model", "step", "model", "step"]
    assert (steps[1]["completion_ids"], steps[4]["reward"]) == ([3], 0.25)
    assert json.loads(steps[2]["obs"])["messages"][0]["content"] == "a cat"


def test_episodes_that_are_imported_from_parquet_are_the_same(record, tmp_path):
    pytest.importorskip("pyarrow")
    export_parquet(record, tmp_path / "parquet")
    with Recorder(tmp_path / "again") as run:
        assert import_parquet(tmp_path / "parquet", run) == 4
    again = Record(tmp_path / "again")
    for episode in record:
        twin = again[episode.id]
        assert twin.header == episode.header
        assert twin.steps == [{name: value for name, value in step.items() if name != "from"} for step in episode.steps]
        assert conversation(twin) == conversation(episode)
        assert (twin.returns, twin.end["reason"]) == (episode.returns, episode.end["reason"])
    (tmp_path / "parquet" / "steps.parquet").write_text("no")
    with Recorder(tmp_path / "again") as run, pytest.raises(RecordError, match="is not an exported record"):
        import_parquet(tmp_path / "parquet", run)


def test_agents_large_seeds_and_errors_go_to_parquet_and_back(tmp_path):
    pytest.importorskip("pyarrow")
    with Recorder(tmp_path / "run") as run:
        log = run.episode(env="x", seed=2**100, agents=["a", "b"])
        flags = {"a": True, "b": False, "__all__": False}
        log.step({"a": 1, "b": 2}, StepResult({"a": 0, "b": 0}, {"a": 1.0, "b": None}, flags, flags))
        log.end("infra_error", error="it broke")
    export_parquet(Record(tmp_path / "run"), tmp_path / "parquet")
    with Recorder(tmp_path / "again") as run:
        import_parquet(tmp_path / "parquet", run)
    (before,), (after,) = Record(tmp_path / "run"), Record(tmp_path / "again")
    assert after.header["seed"] == 2**100
    assert after.steps[0]["reward"] == {"a": 1.0, "b": None}
    assert (after.returns, after.end["error"]) == ({"a": 1.0}, {"message": "it broke"})
    assert before.id == after.id


def test_minari_reads_the_episodes_of_array_environments(tmp_path, monkeypatch):
    if importlib.util.find_spec("minari") is None:
        need("minari", "minari is not installed")
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    pytest.importorskip("gymnasium")
    with ew.make(_Walk, record=tmp_path / "run") as env:
        for seed in range(2):
            env.reset(seed=seed)
            for _ in range(3):
                env.step(1)
    assert export_minari(Record(tmp_path / "run"), "walk/recorded-v0") == 2
    dataset = minari.load_dataset("walk/recorded-v0")
    episodes = list(dataset.iterate_episodes())
    assert [episode.observations.shape for episode in episodes] == [(4, 2), (4, 2)]
    assert [episode.rewards.tolist() for episode in episodes] == [[1.0, 2.0, 3.0]] * 2
    assert episodes[0].truncations.tolist() == [False, False, True]
    with Recorder(tmp_path / "again") as run:
        assert import_minari("walk/recorded-v0", run) == 2
    for before, after in zip(Record(tmp_path / "run"), Record(tmp_path / "again"), strict=True):
        for field in ("action", "obs", "reward"):
            assert [step[field] for step in after.steps] == [step[field] for step in before.steps]
        assert (after.events[1]["obs"], after.returns) == (before.events[1]["obs"], before.returns)
    with Recorder(tmp_path / "again") as run, pytest.raises(RecordError, match="is not a dataset"):
        import_minari("walk/nothing-v0", run)


class _Walk(ew.Environment):
    def reset(self, seed=None):
        self.at = 0.0
        return [self.at, 0.0]

    def step(self, action):
        self.at += action
        return [self.at, float(action)], self.at, False, False, {}


def test_minari_refuses_texts(record, monkeypatch):
    if importlib.util.find_spec("minari") is None:
        with pytest.raises(UnavailableError, match="minari"):
            export_minari(record, "x/y-v0")
    else:
        with pytest.raises(UnsupportedError, match="not arrays of one shape"):
            export_minari(record, "x/y-v0")


@pytest.mark.parametrize("form", ["messages", "atif", "parquet"])
def test_the_commands_export_and_import(record, tmp_path, form):
    out, again = str(tmp_path / "out"), str(tmp_path / "again")
    count = 3 if form == "messages" else 4
    done = envweave("export", str(record.path), "--to", form, out)
    assert (done.returncode, done.stdout) == (0, f"{count} episodes written to {out}\n"), done.stderr
    done = envweave("import", out, "--from", form, again)
    assert (done.returncode, done.stdout) == (0, f"{count} episodes added to {again}\n"), done.stderr
    assert len(Record(again)) == count


def envweave(*words):
    return subprocess.run([sys.executable, "-m", "envweave", *words], capture_output=True, text=True, check=False)

"""Writing a run and reading it again."""

import gzip
import hashlib
import json
import multiprocessing
import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from envweave.errors import RecordError, UsageError
from envweave.lm.messages import FunctionCall, Message
from envweave.lm.reply import Reply, Usage
from envweave.record import Record, Recorder
from envweave.requests import EpisodeEnd, NeedAction, ToolCall
from envweave.results import ResetResult, StepResult
from envweave.types import Observation

NEED = (NeedAction(env_id="x#0", action_schema={"type": "integer"}),)


def play(run, steps=3, **header):
    log = run.episode(env="x", **header)
    log.reset(ResetResult({"at": 0}, {}, NEED), 0.001)
    for number in range(steps):
        log.step(number, StepResult({"at": number}, 0.5, requests=NEED), 0.002)
    log.end("terminated")
    return log.id


def test_an_episode_is_read_as_it_was_written(tmp_path):
    with Recorder(tmp_path) as run:
        id = play(run, seed=7, task={"id": "t1"})
    (episode,) = Record(tmp_path)
    assert [event["kind"] for event in episode.events] == ["episode", "reset", "step", "step", "step", "end"]
    assert (episode.id, episode.header["seed"], episode.header["env"]) == (id, 7, "x")
    assert episode.steps[1] | {"t": 0, "ms": 0} == {
        "kind": "step", "n": 2, "t": 0, "ms": 0, "action": 1, "obs": {"at": 1}, "reward": 0.5,
        "terminated": False, "truncated": False, "requests": [{"kind": "need_action", "agent_id": "agent"}],
    }  # fmt: skip
    assert episode.events[1]["requests"][0]["action_schema"] == {"type": "integer"}
    assert episode.returns == {"agent": 1.5}
    lines = episode.lines.splitlines(keepends=True)
    assert episode.end["sha256"] == hashlib.sha256(b"".join(lines[:-1])).hexdigest()


def test_the_index_has_a_row_for_each_episode(tmp_path):
    with Recorder(tmp_path) as run:
        for number in range(3):
            play(run, steps=number, task={"id": f"t{number}"}, group="g", attempt=number)
    rows = Record(tmp_path).rows
    (strings,) = tmp_path.glob("strings-*.jsonl")
    names = [json.loads(line) for line in strings.read_text().splitlines()]
    assert [row.steps for row in rows] == [0, 1, 2]
    assert [names[row.task] for row in rows] == ["t0", "t1", "t2"]
    assert [(row.scored, row.total, row.attempt) for row in rows] == [(0, 0.0, 0), (1, 0.5, 1), (1, 1.0, 2)]
    assert {names[row.group] for row in rows} == {"g"}
    assert sum(path.stat().st_size for path in tmp_path.glob("*.idx")) == 3 * 64


def test_episodes_are_found_by_number_and_by_id(tmp_path):
    with Recorder(tmp_path) as run:
        ids = [play(run, seed=number) for number in range(5)]
    record = Record(tmp_path)
    assert len(record) == 5
    assert record[3].header["seed"] == record[ids[3]].header["seed"] == 3
    assert record[-1].id == ids[4]
    assert ids[2] in record
    assert "nobody" not in record
    with pytest.raises(RecordError, match="no episode has the ID 'nobody'"):
        record["nobody"]


@pytest.mark.parametrize("damage", ["missing", "cut", "changed", "too long"])
def test_a_damaged_index_changes_nothing(tmp_path, damage):
    with Recorder(tmp_path) as run:
        ids = [play(run) for _ in range(4)]
    (index,) = tmp_path.glob("*.idx")
    data = bytearray(index.read_bytes())
    data[70] ^= 255  # in the second row
    changed = {"missing": b"", "cut": data[:150], "changed": bytes(data), "too long": index.read_bytes() + b"\1" * 64}
    index.unlink() if damage == "missing" else index.write_bytes(changed[damage])
    record = Record(tmp_path)
    assert [episode.id for episode in record] == ids
    assert [row.steps for row in record.rows] == [3] * 4


def test_compressed_segments_are_files_of_gzip(tmp_path):
    with Recorder(tmp_path, compress="gzip") as run:
        ids = [play(run) for _ in range(3)]
    (path,) = tmp_path.glob("ep-*.jsonl.gz")
    assert gzip.decompress(path.read_bytes()).count(b"\n") == 18
    assert [episode.id for episode in Record(tmp_path)] == ids
    next(tmp_path.glob("*.idx")).unlink()
    assert [episode.id for episode in Record(tmp_path)] == ids


def test_a_run_is_read_while_it_is_written(tmp_path):
    with Recorder(tmp_path) as run:
        play(run)
        log = run.episode(env="x")
        record = Record(tmp_path)
        assert len(record) == 1
        assert [episode.end for episode in record.running()] == [None]
        log.end("closed")
        play(run)
        assert len(record) == 1
        record.refresh()
        assert len(record) == 3
        assert record.running() == []


def test_two_writers_share_a_folder(tmp_path):
    with Recorder(tmp_path) as first, Recorder(tmp_path) as second:
        ids = {play(run) for run in (first, second) for _ in range(3)}
    record = Record(tmp_path)
    assert {episode.id for episode in record} == ids
    assert len(record.description["writers"]) == 2
    assert [writer["episodes"] for writer in record.description["writers"].values()] == [3, 3]


def test_an_open_episode_ends_unfinished_with_its_recorder(tmp_path):
    with Recorder(tmp_path) as run:
        run.episode(env="x").step(1, StepResult(None, 1.0))
    (episode,) = Record(tmp_path)
    assert (episode.end["reason"], episode.returns) == ("unfinished", {"agent": 1.0})
    assert list((tmp_path / "live").iterdir()) == []


def test_a_forked_process_is_a_writer_of_its_own(tmp_path):
    run = Recorder(tmp_path)
    log = run.episode(env="x")
    log.step("parent", StepResult(None, 1.0))

    def child():
        log.step("child", StepResult(None, 2.0))
        log.end("terminated")
        play(run)
        run.close()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    log.step("parent again", StepResult(None, 4.0))
    log.end("terminated")
    run.close()
    found = {episode.header.get("parent", {}).get("n"): episode for episode in Record(tmp_path)}
    assert len(Record(tmp_path)) == 3
    assert found[1].header["parent"]["episode"] == log.id
    assert [step["action"] for step in found[1].steps] == ["child"]
    actions = [step["action"] for step in Record(tmp_path)[log.id].steps]
    assert actions == ["parent", "parent again"]


def killed_writer(path, steps, torn=b""):
    """A process that records two episodes and is killed in the middle of the second."""
    with Recorder(path) as warm:
        del warm
    pid = os.fork()
    if pid == 0:
        run = Recorder(path)
        play(run)
        log = run.episode(env="x", seed=3)
        log.reset(ResetResult(None, {}, ()))
        for number in range(steps):
            log.step(number, StepResult(None, 1.0))
        with open(log.path, "ab") as file:
            file.write(torn)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("torn", [b"", b'{"kind":"step","n":5,"t"', b'{"kind":"step"}garbage\n'])
def test_the_episode_of_a_killed_process_is_recovered_and_a_torn_line_is_cut(tmp_path, torn):
    killed_writer(tmp_path, 4, torn)
    assert len(list((tmp_path / "live").glob("*.jsonl"))) == 1
    record = Record(tmp_path)
    assert list((tmp_path / "live").iterdir()) == []
    finished, unfinished = record
    assert finished.end["reason"] == "terminated"
    assert unfinished.end["reason"] == "unfinished"
    assert (unfinished.end["n"], unfinished.returns) == (4, {"agent": 4.0})
    assert len(unfinished.steps) == 4


def test_an_episode_that_was_moved_and_not_removed_is_there_once(tmp_path):
    killed_writer(tmp_path, 2)
    (live,) = (tmp_path / "live").glob("*.jsonl")
    assert len(Record(tmp_path)) == 2
    (segment,) = tmp_path.glob("ep-*.jsonl")
    last = segment.read_bytes()[Record(tmp_path).rows[-1].offset :]
    live.write_bytes(last)  # as if the process that moved it had been killed before it removed the file
    with segment.open("ab") as file:
        file.write(b'{"kind":"episode","v":1,"epi')
    assert len(Record(tmp_path)) == 2
    assert not live.exists()


def test_episodes_of_a_living_process_are_left_alone(tmp_path):
    with Recorder(tmp_path) as run:
        log = run.episode(env="x")
        assert len(Record(tmp_path)) == 0
        with Recorder(tmp_path):
            pass
        assert Path(log.path).exists()
        log.end("terminated")


def test_large_values_are_files_of_their_own_once_each(tmp_path):
    picture = "p" * 100_000
    with Recorder(tmp_path) as run:
        log = run.episode(env="x")
        for _ in range(3):
            log.step(0, StepResult({"screen": {"png": picture}, "text": "small"}))
        log.end("terminated")
    assert len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]) == 1
    assert sum(path.stat().st_size for path in tmp_path.glob("ep-*.jsonl")) < 3_000
    assert [step["obs"] for step in Record(tmp_path)[0].steps] == [{"screen": {"png": picture}, "text": "small"}] * 3


def test_secrets_are_hidden_everywhere(tmp_path, monkeypatch):
    secrets = {
        "given": 'a "quoted" secret',
        "variable": "value-of-a-variable",
        "openai": "sk-proj-abcdefghijklmnop1234",
        "hub": "hf_abcdefghijklmnopqrstuv",
        "github": "ghp_abcdefghijklmnopqrstuv",
        "slack": "xoxb-1234567890-abcdef",
        "aws": "AKIAABCDEFGHIJKLMNOP",
        "key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----",
    }
    bearer = "dG9rZW4tdG9rZW4="
    monkeypatch.setenv("SOME_API_KEY", secrets["variable"])
    text = "\n".join((*secrets.values(), f"Authorization: Bearer {bearer}", "task-0000000000000000000001"))
    with Recorder(tmp_path, secrets=[secrets["given"]]) as run:
        log = run.episode(env=text, note=text)
        log.step(text, StepResult({text: text * 300}, info={"text": text}))
        log.end("infra_error", error=text)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()).decode(errors="replace")
    for secret in (*secrets.values(), "MIIEow", bearer):
        assert json.dumps(secret)[1:-1] not in written
    assert "task-0000000000000000000001" in written
    episode = Record(tmp_path)[0]
    assert episode.steps[0]["action"].count("«redacted:") == len(secrets) + 1
    assert episode.steps[0]["info"]["text"] == episode.header["note"]
    (writer,) = Record(tmp_path).description["writers"].values()
    assert writer["redacted"] > 9


def test_unknown_kinds_and_fields_are_kept(tmp_path):
    with Recorder(tmp_path) as run:
        log = run.episode(env="x", colour="blue")
        log.event("weather", rain=True)
        log.end("closed", mood="good")
    (episode,) = Record(tmp_path)
    assert episode.header["colour"] == "blue"
    assert episode.events[1]["kind"] == "weather"
    assert episode.events[1]["rain"] is True
    assert episode.end["mood"] == "good"


def test_what_has_no_json_form_does_not_break_the_episode(tmp_path):
    @dataclass
    class Odd(Observation):
        value: object = None

    odd = [object(), {1: "one", (1, 2): "pair"}, float("nan"), "\ud800", {3}, 2**80, b"bytes"]
    with Recorder(tmp_path) as run:
        log = run.episode(env="x")
        for value in odd:
            log.step(value, StepResult(Odd(value=value)))
        log.end("terminated")
    values = [step["obs"]["value"] for step in Record(tmp_path)[0].steps]
    expected = [
        {"not_json": "builtins.object"},
        {"1": "one", "(1, 2)": "pair"},
        None,
        "\\ud800",
        [3],
        2**80,
        "Ynl0ZXM=",
    ]
    assert values == expected


def test_requests_and_replies_of_models_are_recorded(tmp_path):
    call = FunctionCall("c1", "look", '{"at": 1}')
    reply = Reply(
        Message("assistant", None, tool_calls=(call,), reasoning="hm"), "tool_calls", Usage(1, 0, 10, 4),
        prompt_token_ids=(1, 2), token_ids=(3,), logprobs=(-0.5,), model="m",
    )  # fmt: skip
    asked = ToolCall(env_id="x#0", request_id="r1", tool_name="look", arguments={"at": 1})
    with Recorder(tmp_path) as run:
        log = run.episode(env="x")
        log.model(reply, 0.5)
        log.step({}, StepResult(None, requests=(asked,)), call_id="c1")
        log.respond("r1", "seen", StepResult(None, 1.0, True, requests=(EpisodeEnd(reason="terminated"),)))
        log.end("terminated")
    model, step, respond = Record(tmp_path)[0].events[1:4]
    assert (model["n"], step["n"], respond["n"]) == (1, 1, 1)
    assert model["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": 1}'}
    assert model["message"]["reasoning_content"] == "hm"
    assert model["usage"] == {"prompt": 10, "completion": 4, "cached": 0, "reasoning": 0}
    assert model["tokens"] == {"prompt_ids": [1, 2], "completion_ids": [3], "logprobs": [-0.5]}
    assert step["from"] == "c1"
    assert step["requests"][0]["tool_name"] == "look"
    assert "env_id" not in step["requests"][0]
    assert (respond["request_id"], respond["value"]) == ("r1", "seen")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"cannot record to .*file") as raised:
        Recorder(tmp_path / "file")
    assert raised.value.hint


def test_a_full_disk_raises_and_the_lines_before_it_are_kept(tmp_path):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        run = Recorder(tmp_path)
        log = run.episode(env="x")
        log.step("fits", StepResult(None))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
        outcomes = []
        for _ in range(2):
            try:
                log.step("x" * 4_000, StepResult(None))
            except RecordError as error:
                outcomes.append("cannot record" in str(error))
        os._exit(0 if outcomes == [True, True] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    (episode,) = Record(tmp_path)
    assert [step["action"] for step in episode.steps] == ["fits"]
    assert episode.end["reason"] == "unfinished"


def test_nothing_is_written_after_the_end(tmp_path):
    with Recorder(tmp_path) as run:
        log = run.episode(env="x")
        log.end("closed")
        log.end("closed")
        with pytest.raises(UsageError, match="has its end already"):
            log.step(0, StepResult(None))
    with pytest.raises(UsageError, match="closed"):
        run.episode(env="x")
    assert len(Record(tmp_path)) == 1


def test_a_folder_without_a_record_is_named(tmp_path):
    with pytest.raises(RecordError, match="there is no record in"):
        Record(tmp_path)

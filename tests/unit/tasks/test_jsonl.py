"""Tasks in a file: read when they are asked for, and refused with the line."""

import json
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from envweave.errors import UsageError
from envweave.tasks import Tasks
from envweave.tasks import jsonl as module


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def path(tmp_path):
    lines = [json.dumps({"id": f"t{n}", "split": "test" if n % 2 else "train", "n": n}) for n in range(6)]
    return write(tmp_path / "tasks.jsonl", *lines)


@pytest.fixture
def parsed(monkeypatch):
    """The lines that were parsed."""
    lines = []
    loads = json.loads
    monkeypatch.setattr(module.json, "loads", lambda line: lines.append(line) or loads(line))
    return lines


def test_lines_are_tasks(path):
    tasks = Tasks.from_jsonl(path)
    assert len(tasks) == 6
    assert [task["n"] for task in tasks] == list(range(6))
    assert tasks["t3"] == tasks[3] == {"id": "t3", "split": "test", "n": 3}
    assert tasks.split("test").shuffled(0).splits == {"test": 3}


def test_a_line_is_parsed_when_it_is_asked_for(path, parsed):
    tasks = Tasks.from_jsonl(path)
    assert len(tasks[2:].shuffled(1)) == 4
    assert parsed == []
    assert tasks.by_seed(9)["n"] == 3
    assert len(parsed) == 1
    _ = tasks["t1"], tasks["t2"], tasks.ids, tasks.splits, tasks.split("test")
    assert len(parsed) == 1 + 6 + 2  # all of them once, for the IDs


def test_empty_lines_a_missing_last_newline_and_a_bom_are_accepted(tmp_path):
    path = tmp_path / "odd.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"n": 0}\r\n\r\n  \n{"n": 1}\n{"n": "\xc3\xbc"}')
    tasks = Tasks.from_jsonl(path)
    assert [task["n"] for task in tasks] == [0, 1, "ü"]
    assert tasks.ids == ("0", "1", "2")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{'n': 1}", "is not JSON"),
        ('["n"]', "is a list, not an object"),
        ('{"n": 1', "is not JSON"),
        ('{"id": ""}', "empty id"),
    ],
)
def test_a_malformed_line_is_refused_with_its_file_and_number(tmp_path, line, reason):
    path = write(tmp_path / "bad.jsonl", '{"n": 0}', "", '{"n": 2}', line, '{"n": 4}')
    tasks = Tasks.from_jsonl(path)
    assert [tasks[n]["n"] for n in (0, 1, 3)] == [0, 2, 4]
    for use in (lambda: tasks[2], lambda: tasks.ids, lambda: tasks["3"], lambda: list(tasks), lambda: tasks.splits):
        with pytest.raises(UsageError, match=reason) as refused:
            use()
        assert refused.value.message.startswith(f"{path}:4")


def test_a_line_that_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": "\xfc"}\n')
    with pytest.raises(UsageError, match=r"latin\.jsonl:2 is not JSON"):
        Tasks.from_jsonl(path)[1]


def test_an_id_that_occurs_twice_is_refused_with_both_lines(tmp_path):
    path = write(tmp_path / "twice.jsonl", '{"id": "a"}', "", '{"id": "b"}', '{"id": "a"}')
    with pytest.raises(UsageError, match=f"'a' occurs twice: {path}:1 and {path}:4"):
        Tasks.from_jsonl(path)["b"]


def test_a_file_that_is_missing_empty_or_a_folder_is_refused(tmp_path, path):
    with pytest.raises(UsageError, match="No such file") as refused:
        Tasks.from_jsonl(tmp_path / "task.jsonl")
    assert refused.value.hint == "did you mean 'tasks.jsonl'?"
    with pytest.raises(UsageError, match=r"empty\.jsonl has no tasks"):
        Tasks.from_jsonl(write(tmp_path / "empty.jsonl", "", " "))
    with pytest.raises(UsageError, match="Is a directory"):
        Tasks.from_jsonl(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        Tasks.from_jsonl(tmp_path / "no_such_folder" / "x.jsonl")


def test_a_file_that_changes_is_refused_and_not_read_at_the_wrong_place(path):
    tasks = Tasks.from_jsonl(path)
    path.write_text('{"id": "new"}\n' + path.read_text())
    for use in (lambda: tasks[0], lambda: tasks.ids, lambda: list(tasks)):
        with pytest.raises(UsageError, match="has changed since it was loaded"):
            use()
    path.unlink()
    with pytest.raises(UsageError, match="No such file"):
        tasks[0]


def test_a_pickle_has_no_offsets_and_refuses_another_file(path):
    tasks = Tasks.from_jsonl(path)
    before = len(pickle.dumps(tasks))
    _ = tasks.ids
    assert len(pickle.dumps(tasks)) == before < 300 + len(str(path)) * 2
    twin = pickle.loads(pickle.dumps(tasks[1:]))
    assert list(twin) == list(tasks[1:])
    data = pickle.dumps(tasks)
    path.write_text('{"n": 1}\n')
    with pytest.raises(UsageError, match="has changed"):
        pickle.loads(data)[0]


def _numbers(tasks, order):
    return [tasks[n]["n"] for n in order]


def test_threads_and_forked_processes_read_at_the_same_time(path):
    tasks = Tasks.from_jsonl(path)
    reading = iter(tasks)
    next(reading)  # a file is open while others read
    orders = [[5, 0, 3] * 50, [1, 4, 2] * 50]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(_numbers, [tasks] * 2, orders)) == orders
    parent, child = multiprocessing.Pipe()
    pid = os.fork()
    if pid == 0:
        child.send(_numbers(tasks, orders[0]) + [task["n"] for task in tasks])
        os._exit(0)
    assert _numbers(tasks, orders[1]) == orders[1]
    assert parent.recv() == [*orders[0], *range(6)]
    os.waitpid(pid, 0)
    assert [task["n"] for task in reading] == [1, 2, 3, 4, 5]


def test_a_hundred_thousand_tasks_are_loaded_and_selected_without_parsing_them(tmp_path, parsed):
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"id": "task-{n}", "n": {n}}}\n' for n in range(100_000)))
    tasks = Tasks.from_jsonl(path)
    assert len(tasks) == 100_000
    assert tasks[99_999]["n"] == 99_999
    assert tasks.by_seed(123_456)["n"] == 23_456
    assert len(tasks.shuffled(3)[:10]) == 10
    assert len(parsed) == 2

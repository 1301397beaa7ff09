"""Rows that cannot be played are refused with the task and the field, and without what may be an answer."""

import pyarrow as pa
import pytest
from pyarrow import parquet

import envweave as ew
from envweave.envs.code_tasks import CodeTask, open_tasks
from envweave.sandbox import Limits

SECRET = "secret-8274619"
TEST = {"args": [1], "expected": SECRET}
ROW = {"id": "one", "prompt": "?", "answer": SECRET}
TESTED = {"id": "one", "prompt": "?", "function": "f", "tests": [TEST]}


def without(row, name):
    return {key: value for key, value in row.items() if key != name}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (without(ROW, "prompt"), "the field 'prompt' of the task 'one' is missing"),
        ({**ROW, "prompt": 3}, "the field 'prompt' of the task 'one' is a int"),
        (without(ROW, "answer"), "the task 'one' has neither tests nor an answer"),
        ({**TESTED, "answer": SECRET}, "the task 'one' has both tests and an answer"),
        ({**ROW, "answer": {"is": SECRET}}, "the field 'answer' of the task 'one' is not an answer"),
        ({**ROW, "answer": " "}, "the field 'answer' of the task 'one' is not an answer"),
        (without(TESTED, "function"), "the field 'function' of the task 'one' is missing"),
        ({**TESTED, "function": "a.b"}, "the field 'function' of the task 'one' is 'a.b'"),
        ({**TESTED, "function": "def"}, "the field 'function' of the task 'one' is 'def'"),
        ({**TESTED, "tests": []}, "the field 'tests' of the task 'one' is not a list of tests"),
        ({**TESTED, "tests": SECRET}, "the field 'tests' of the task 'one' is not a list of tests"),
        ({**TESTED, "tests": [TEST, {"args": []}]}, "the field 'tests[1]' of the task 'one' is not a test"),
        ({**TESTED, "tests": [{**TEST, "args": (1,)}]}, "'tests[0].args' of the task 'one' is not a list of JSON"),
        ({**TESTED, "tests": [{**TEST, "expected": (SECRET,)}]}, "'tests[0].expected' of the task 'one' is not JSON"),
        ({**TESTED, "tests": [{**TEST, "expected": {1: 2}}]}, "'tests[0].expected' of the task 'one' is not JSON data"),
        (
            {**TESTED, "tests": [{**TEST, "expected": "x" * 70_000}]},
            "'tests[0].expected' of the task 'one' is too large",
        ),
        ({**ROW, "max_steps": 0}, "the field 'max_steps' of the task 'one' is 0"),
        ({**ROW, "max_steps": 1.5}, "the field 'max_steps' of the task 'one' is 1.5"),
        ({**ROW, "max_seconds": "1"}, "the field 'max_seconds' of the task 'one' is '1'"),
        ({**ROW, "limits": 5}, "the field 'limits' of the task 'one' is a int"),
        ({**ROW, "limits": {"wal": 5}}, "the field 'limits' of the task 'one' is wrong: there is no limit 'wal'"),
        ({**ROW, "limits": {"wall": -1}}, "the field 'limits' of the task 'one' is wrong: the limit wall is -1"),
        ({**ROW, "limits": {"wall": 31}}, "'limits.wall' of the task 'one' is 31, and that of the environment is 30.0"),
        ({**ROW, "limits": {"wall": None}}, "'limits.wall' of the task 'one' is None, and that of the environment"),
        ({**ROW, "context": 5}, "the field 'context' of the task 'one' is a int"),
    ],
)
def test_a_row_that_cannot_be_played_is_refused(row, message):
    with pytest.raises(ew.UsageError) as raised:
        CodeTask.read(row, Limits())
    assert message in str(raised.value)
    assert SECRET not in str(raised.value)


def test_limits_may_be_lower_and_unlimited_ones_may_be_limited():
    task = CodeTask.read({**ROW, "limits": {"wall": 5, "cpu": 2}}, Limits())
    assert (task.limits.wall, task.limits.cpu, task.limits.processes) == (5, 2, Limits().processes)


def test_what_a_task_must_not_tell_is_not_in_its_repr():
    assert SECRET not in repr(CodeTask.read(TESTED, Limits()))
    assert SECRET not in repr(CodeTask.read(ROW, Limits()))


def test_a_wrong_row_leaves_the_episode_as_it_was():
    with ew.make("codeact") as env:
        env.reset(task=ROW)
        with pytest.raises(ew.UsageError, match="the field 'prompt'"):
            env.unwrapped.reset(task={**ROW, "prompt": 1})
        assert env.step({"code": f"submit({SECRET!r})"}).reward == 1.0


def test_tasks_come_from_a_list_a_file_or_a_set_that_ships(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": "a", "prompt": "1 + 2?", "answer": 3}\n')
    columns = str(tmp_path / "tasks.parquet")
    parquet.write_table(pa.Table.from_pylist([{"id": "a", "prompt": "1 + 2?", "answer": 3}]), columns)
    for source in (str(path), path, columns, [{"id": "a", "prompt": "1 + 2?", "answer": 3}], ew.Tasks.from_jsonl(path)):
        assert open_tasks(source).ids == ("a",)
    assert open_tasks(None) is None
    assert open_tasks("programming").splits.keys() == {"train", "test"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("programing", "there are no tasks 'programing'\nhint: did you mean 'programming'"),
        ("missing.jsonl", "missing.jsonl"),
        (5, "tasks is a int"),
        ([], "no tasks"),
    ],
)
def test_other_sources_are_refused(source, message):
    with pytest.raises(ew.UsageError) as raised:
        open_tasks(source)
    assert message in str(raised.value)

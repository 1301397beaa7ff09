"""One task: its fields, its ID, and what it does not show."""

import copy
import pickle
from types import MappingProxyType

import pytest

from envweave.core.task import content_id
from envweave.errors import UsageError
from envweave.tasks import Task


def test_a_task_is_a_mapping_of_its_fields_and_names_three_of_them():
    task = Task({"id": "a", "split": "test", "prompt": "1 + 1?", "answer": "2"})
    assert (task.id, task.split, task.prompt) == ("a", "test", "1 + 1?")
    assert dict(task) == {"id": "a", "split": "test", "prompt": "1 + 1?", "answer": "2"}
    assert task == dict(task)
    assert len({task, Task(task)}) == 1


def test_a_task_without_split_and_prompt_has_empty_ones():
    task = Task({"id": "a", "prompt": [{"role": "user"}]})
    assert (task.split, task.prompt) == ("", "")
    assert "split" not in task
    assert task["prompt"] == [{"role": "user"}]


def test_a_task_cannot_be_changed():
    row = {"id": "a", "answer": 1}
    task = Task(row)
    row["answer"] = 2
    assert task["answer"] == 1
    with pytest.raises(TypeError):
        task["answer"] = 3
    with pytest.raises(AttributeError):
        task.id = "b"


def test_tasks_with_other_fields_are_not_equal():
    assert Task({"id": "a", "answer": 1}) != Task({"id": "a", "answer": 2})
    assert Task({"id": "a"}) != "a"


def test_the_id_of_a_number_is_text_and_any_other_id_is_refused():
    assert Task({"id": 7})["id"] == "7"
    for wrong in ("", 1.5, True, ["a"]):
        with pytest.raises(UsageError, match="id"):
            Task({"id": wrong})


def test_a_row_without_an_id_is_named_by_its_content():
    one = Task({"prompt": "x", "tests": ("a", "b")})
    assert one.id == Task({"tests": ["a", "b"], "prompt": "x"}).id == content_id({"prompt": "x", "tests": ["a", "b"]})
    assert one.id != Task({"prompt": "y", "tests": ("a", "b")}).id
    assert Task({"prompt": "1+1?"}).id == "a154d93a8f831baa"  # the same in every version and on every machine
    assert Task(one).id == one.id


def test_a_row_that_has_neither_an_id_nor_a_json_form_is_refused():
    with pytest.raises(UsageError, match=r"task\.check is a function") as refused:
        Task({"check": test_a_task_cannot_be_changed})
    assert refused.value.hint == "give it an id"
    assert Task({"id": "a", "check": len})["check"] is len


def test_what_is_not_a_mapping_of_names_is_refused():
    for wrong in ("a", ["id", "a"], None, 3, {1: "a"}):
        with pytest.raises(UsageError, match="task"):
            Task(wrong)
    assert Task(MappingProxyType({"id": "a"})).id == "a"
    with pytest.raises(UsageError, match="split"):
        Task({"id": "a", "split": 1})


def test_a_task_pickles_and_copies_deeply():
    task = Task({"id": "a", "tests": [1]})
    assert pickle.loads(pickle.dumps(task)) == task
    twin = copy.deepcopy(task)
    twin["tests"].append(2)
    assert task["tests"] == [1]


def test_the_text_of_a_task_shows_no_answer():
    assert repr(Task({"id": "a", "split": "test", "answer": "secret"})) == "Task('a', split='test')"

"""A list of tasks: by index, ID, split and seed."""

import copy
import pickle

import pytest

from envweave.errors import TaskNotFoundError, UsageError
from envweave.tasks import Task, Tasks
from envweave.tasks.tasks import NEAREST_AMONG

ROWS = [{"id": name, "split": split, "n": n} for n, (name, split) in enumerate(zip("abcde", "xxyxy", strict=True))]


@pytest.fixture
def tasks():
    return Tasks(ROWS)


def test_tasks_are_a_sequence(tasks):
    assert len(tasks) == 5
    assert [task.id for task in tasks] == list("abcde")
    assert tasks[1] == tasks[-4] == tasks["b"] == Task(ROWS[1])
    assert [task.id for task in reversed(tasks)] == list("edcba")
    assert tasks.index("c") == tasks.index(tasks[2]) == 2
    assert "c" in tasks
    assert tasks[2] in tasks
    assert "z" not in tasks
    assert Task({"id": "c"}) not in tasks


def test_a_slice_is_tasks_that_keep_their_ids(tasks):
    some = tasks[1:4]
    assert isinstance(some, Tasks)
    assert some.ids == ("b", "c", "d")
    assert some[0].id == "b"
    assert some[::2].ids == ("b", "d")
    with pytest.raises(TaskNotFoundError, match="no task 'a'"):
        some["a"]


def test_splits_are_counted_and_selected(tasks):
    assert tasks.splits == {"x": 3, "y": 2}
    assert tasks.split("y").ids == ("c", "e")
    assert tasks.split("y").splits == {"y": 2}
    assert tasks[:2].splits == {"x": 2}
    assert Tasks([{"n": 1}]).splits == {}


def test_an_unknown_split_is_refused_with_those_that_there_are(tasks):
    with pytest.raises(TaskNotFoundError, match="no tasks in the split 'test'") as refused:
        tasks.split("test")
    assert refused.value.hint == "splits: 'x', 'y'"
    with pytest.raises(TaskNotFoundError, match="'y'"):
        tasks[:2].split("y")


def test_a_shuffle_depends_on_the_seed_alone(tasks):
    assert tasks.shuffled(1).ids == ("c", "d", "e", "a", "b")  # the same in every version and on every machine
    assert tasks.shuffled(1).ids != tasks.shuffled(2).ids
    assert sorted(tasks.shuffled(2).ids) == list("abcde")
    assert tasks.ids == tuple("abcde")
    assert tasks.shuffled(1).split("x").ids == ("d", "a", "b")


def test_consecutive_seeds_select_every_task_before_one_occurs_again(tasks):
    assert [tasks.by_seed(seed).id for seed in range(7)] == list("abcdeab")
    assert tasks.by_seed(-1).id == "e"
    assert tasks.by_seed(10**30).id == "a"
    with pytest.raises(UsageError, match=r"seed is 1\.5"):
        tasks.by_seed(1.5)


def test_an_unknown_id_suggests_the_nearest_one():
    with pytest.raises(TaskNotFoundError, match="no task 'sort-lst'") as refused:
        Tasks([{"id": "sort-list"}, {"id": "reverse"}])["sort-lst"]
    assert refused.value.hint == "did you mean 'sort-list'?"


def test_the_nearest_of_many_ids_is_suggested():
    many = Tasks({"id": f"{kind}-{number}"} for kind in ("sort", "reverse") for number in range(NEAREST_AMONG))
    with pytest.raises(TaskNotFoundError) as refused:
        _ = many["reverse-99x9"]
    assert refused.value.hint == "did you mean 'reverse-999'?"


def test_an_unknown_index_is_refused_with_the_range(tasks):
    for wrong in (5, -6):
        with pytest.raises(TaskNotFoundError, match=f"no task {wrong}") as refused:
            tasks[wrong]
        assert refused.value.hint == "tasks are numbered 0 to 4"
    with pytest.raises(UsageError, match="key"):
        tasks[1.5]
    with pytest.raises(LookupError):
        tasks[5]


def test_rows_without_an_id_are_named_by_their_position_and_split():
    assert Tasks([{"n": 1}, {"id": "b"}, {"n": 3}]).ids == ("0", "b", "2")
    named = Tasks([{"n": 1}, {"n": 2, "split": "dev"}], split="test")
    assert named.ids == ("test/0", "test/1")
    assert [task.split for task in named] == ["test", "dev"]
    assert named[1:]["test/1"]["n"] == 2


def test_an_id_that_occurs_twice_is_refused_with_both_positions():
    with pytest.raises(UsageError, match="the id 'a' occurs twice: task 0 of the list and task 2 of the list"):
        Tasks([{"id": "a"}, {"id": "b"}, {"id": "a"}])
    with pytest.raises(UsageError, match="the id '1' occurs twice"):
        Tasks([{"id": "1"}, {"n": 2}])


def test_what_is_not_a_list_of_mappings_is_refused():
    for wrong in ({"id": "a"}, "abc", b"abc"):
        with pytest.raises(UsageError, match="not a list of mappings"):
            Tasks(wrong)
    with pytest.raises(UsageError, match="task 1 of the list is a str, not a mapping"):
        Tasks([{"id": "a"}, "b"])
    with pytest.raises(UsageError, match=r"task 1 of the list: the id of a task is 1\.5"):
        Tasks([{"id": "a"}, {"id": 1.5}])


def test_no_tasks_are_refused_but_an_empty_slice_is_not():
    with pytest.raises(UsageError, match="the list has no tasks"):
        Tasks([])
    with pytest.raises(UsageError, match="the split 'test' of the list has no tasks"):
        Tasks(iter([]), split="test")
    empty = Tasks(ROWS)[5:]
    assert (len(empty), empty.ids, empty.splits) == (0, (), {})
    with pytest.raises(TaskNotFoundError, match="no tasks"):
        empty.by_seed(1)


def test_what_an_environment_does_to_a_task_does_not_change_the_list():
    tasks = Tasks([{"id": "a", "tests": [1], "meta": {"k": [2]}}])
    tasks[0]["tests"].append(5)
    tasks["a"]["meta"]["k"].clear()
    assert tasks[0] == {"id": "a", "tests": [1], "meta": {"k": [2]}}


def test_two_lists_are_joined_one_after_the_other(tasks):
    both = tasks[3:] + Tasks([{"n": 1}, {"n": 2}], split="z")
    assert both.ids == ("d", "e", "z/0", "z/1")
    assert [task.split for task in both] == ["x", "y", "z", "z"]
    assert both["z/1"]["n"] == 2
    assert both.splits == {"x": 1, "y": 1, "z": 2}
    with pytest.raises(UsageError, match="'d' occurs twice: task 3 of the list and task 0 of the list"):
        _ = (tasks + Tasks([{"id": "d"}])).ids
    with pytest.raises(TypeError):
        tasks + ROWS


def test_map_changes_the_fields_when_a_task_is_asked_for():
    calls = []

    def prompt(task):
        calls.append(task.id)
        return {"prompt": f"{task['n']}?"}

    mapped = Tasks(ROWS).map(prompt)
    assert calls == []
    assert mapped[1:].split("y")["c"] == {"id": "c", "split": "y", "prompt": "2?"}
    assert Tasks(ROWS).map(lambda task: {"id": task.id * 2}).ids[:2] == ("aa", "bb")
    with pytest.raises(UsageError, match="task 3 of the list: the function returned a int"):
        Tasks(ROWS).map(lambda task: task["n"])[3]


def test_copies_are_the_same_object_and_pickles_are_equal(tasks):
    assert copy.deepcopy(tasks) is tasks
    assert copy.copy(tasks) is tasks
    some = pickle.loads(pickle.dumps(tasks.shuffled(1)[1:]))
    assert list(some) == list(tasks.shuffled(1)[1:])


def test_the_text_of_tasks_shows_their_number(tasks):
    assert repr(tasks) == "<Tasks from the list: 5>"

"""The argument `task` of a vector: one for all rows, or one for each."""

import numpy as np
import pytest

import envweave as ew
from envweave.core.task import ListedTask
from envweave.testing.suites.quiz import QUIZ, QuizEnv


@pytest.fixture(params=["inproc", "thread"])
def vector(request):
    with ew.make_vector(QUIZ, 3, backend=request.param) as made:
        yield made


def ids(batch):
    return [info["task_id"] for info in batch.info]


def test_one_task_is_for_all_rows_and_a_sequence_has_one_for_each(vector):
    for one in (7, "add-7", QuizEnv.tasks[7], dict(QuizEnv.tasks[7]), ListedTask("add-7"), np.int64(7), np.array(7)):
        assert ids(vector.reset(task=one)) == ["add-7"] * 3
    each = ["add-5", "add-6", "add-7"]
    for several in (
        [5, 6, 7],
        tuple(each),
        np.array([5, 6, 7]),
        range(5, 8),
        QuizEnv.tasks[5:8],
        list(QuizEnv.tasks[5:8]),
    ):
        assert ids(vector.reset(task=several)) == each
    assert ids(vector.reset(task=[ListedTask("add-5"), 6, "add-7"])) == each
    assert ids(vector.reset(ids=[2], task=["add-9"])) == ["add-9"]


def test_none_in_a_list_leaves_the_choice_to_the_seed(vector):
    assert ids(vector.reset(seed=5, task=[None, 9, None])) == ["add-5", "add-9", "add-7"]


def test_a_wrong_task_in_one_row_is_refused_before_any_row_changes(vector):
    vector.reset(task="add-7")
    for wrong in (["add-5", "add-07", "add-6"], ["add-5", 250, "add-6"], [5, 6], {5, 6, 7}, [[5], 6, 7]):
        with pytest.raises(ew.UsageError, match="task"):
            vector.reset(task=wrong)
        with pytest.raises(ew.UsageError, match="task"):
            vector.send_reset(task=wrong)
    assert vector.in_flight == []
    assert vector.step(["14"] * 3).reward == [1.0] * 3


def test_a_row_that_fails_in_autoreset_begins_another_task():
    with ew.make_vector(QUIZ, 2, autoreset=True) as vector:
        vector.reset(task="add-7")
        batch = vector.step(["fail", "later"])
        assert batch.info[0]["task_id"] == "add-7"
        ready = next(r for r in batch.requests[0] if isinstance(r, ew.AutoresetReady))
        assert ready.initial_info["task_id"] in QuizEnv.tasks
        assert batch.info[1] == {"own": 1}

"""Tasks per row: the same ones as in a vector of this process, and as in a single environment."""

from __future__ import annotations

from envweave.registry.make import make
from envweave.testing.suites.quiz import QUIZ, QuizEnv
from envweave.testing.suites.record import VectorRecorder
from envweave.testing.suites.vector.base import MakeVector, SameRows, VectorTests


class VectorTaskTests(VectorTests):
    """`reset(task=…)` and `send_reset(task=…)`."""

    def test_each_row_has_its_task_or_all_have_the_same(self, same_rows: SameRows) -> None:
        def script(vector: VectorRecorder) -> None:
            vector.reset(task=[0, "add-7", {"prompt": "mine", "answer": "x"}])
            vector.reset(task="add-5")
            vector.reset(task=3)
            vector.reset(task={"id": "row", "prompt": "mine", "answer": "x"})
            vector.step(["x", "later", "x"])
            vector.reset(ids=[2, 0], task=["add-1", "add-2"])
            vector.reset(seed=7)
            vector.reset(seed=7, task=[None, "add-1", None])
            vector.send_reset([1], task=["add-9"])
            vector.recv()
            vector.send_reset([0, 1], task=9)
            vector.recv(min_ready=2)
            vector.reset(task=QuizEnv.tasks[10:13])

        said = same_rows(QUIZ, 3, script)
        batches = [line["answer"]["results"] for line in said if line.get("call") in ("reset", "step")]
        told = [[row["info"].get("task_id") for row in batch] for batch in batches]
        assert told[1:4] == [["add-5"] * 3, ["add-3"] * 3, ["row"] * 3]
        assert told[4] == ["row", None, "row"]
        assert told[5:8] == [["add-1", "add-2"], ["add-7", "8", "add-9"], ["add-7", "add-1", "add-9"]]
        assert told[-1] == ["add-10", "add-11", "12"]

    def test_tasks_that_are_drawn_depend_on_the_seed_of_the_row(self, same_rows: SameRows) -> None:
        def script(vector: VectorRecorder) -> None:
            vector.reset(seed=[1, 2, 1])
            for _ in range(3):
                vector.step(["x", "later", "x"])
            vector.reset()

        said = same_rows(QUIZ, 3, script, autoreset=True)
        first, other, third = (row["info"]["task_id"] for row in said[-1]["answer"]["results"])
        assert first == third != other

    def test_wrong_tasks_are_refused(self, same_rows: SameRows) -> None:
        def script(vector: VectorRecorder) -> None:
            vector.reset(task="add-1")
            vector.reset(task=["add-1", "add-2"])
            vector.reset(task=[])
            vector.reset(task="add-01")
            vector.reset(task=250)
            vector.reset(task=[True] * 3)
            vector.step(["2", "2", "x"])

        said = same_rows(QUIZ, 3, script)
        errors = [line["error"] for line in said if "error" in line]
        assert [error["message"] for error in errors] == [
            "2 values of task for 3 environments",
            "0 values of task for 3 environments",
            "environment 0: no task 'add-01'",
            "environment 0: no task 250",
            "environment 0: task is True",
        ]
        assert [row["reward"] for row in said[-1]["answer"]["results"]] == [1.0, 1.0, 0.0]

    def test_a_task_is_the_same_in_each_row_as_in_a_single_environment(self, make_vector: MakeVector) -> None:
        chosen: list[dict[str, object]] = [{"task": 33}, {"task": "add-33"}, {"seed": 33}, {"task": QuizEnv.tasks[33]}]
        with make(QUIZ) as env, make_vector(QUIZ, 2) as vector:
            for arguments in chosen:
                expected = env.reset(**arguments)  # type: ignore[arg-type]
                seeds = {name: [value] * 2 for name, value in arguments.items()}
                assert vector.reset(**seeds).info == [expected.info] * 2
                assert expected.info["task_id"] == "add-33"

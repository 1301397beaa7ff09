"""Tasks: the same one here and there, by index, ID, row and seed, and as it is drawn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envweave.core.jsonable import to_json
from envweave.errors import TaskNotFoundError
from envweave.registry.make import make
from envweave.testing.suites.quiz import QUIZ, SECRET, QuizEnv
from envweave.testing.suites.record import Recorder, answer, ends
from envweave.testing.suites.transport.base import Connect, Same, TransportTests

ROW = {"prompt": "1 + 2?", "answer": "3", "numbers": (1, 2.5, None), "nested": {"ü": [True]}}


class TaskTests(TransportTests):
    """`reset(task=…)`, `info["task_id"]`, and the list of tasks."""

    def test_a_task_is_selected_by_index_id_row_and_seed(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            for task in (0, 7, -1, "add-7", "0", ROW, {**ROW, "id": "mine"}, {**ROW, "id": 7}):
                env.reset(task=task)
                env.step("later")
                env.step("14")
            for seed in (0, 7, 257, -1, 2**70):
                env.reset(seed=seed)
                env.reset(seed=seed, task="add-7")
            env.reset(options={"task": "add-5"})

        said = same(QUIZ, script)
        told = [line["answer"]["info"]["task_id"] for line in said if line["call"] == "reset"]
        assert told[:4] == ["0", "add-7", "add-249", "add-7"]
        assert told[8:14:2] == ["0", "add-7", "add-7"]

    def test_a_task_of_another_process_is_the_same_task(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(task=QuizEnv.tasks[9])
            env.step("18")

        assert same(QUIZ, script)[0]["answer"]["observation"]["fields"]["hidden"] == SECRET

    def test_seeds_fix_which_tasks_are_drawn_afterwards(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            for seed in (3, 4, 3):
                env.reset(seed=seed)
                for _ in range(6):
                    env.reset()

        said = same(QUIZ, script)
        told = [line["answer"]["info"]["task_id"] for line in said if line["call"] == "reset"]
        assert told[:7] == told[14:]
        assert len(set(told)) > 8

    def test_autoreset_draws_the_same_tasks(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=11)
            for action in ("x", "later", "x", "fail", "x"):
                env.step(action)
            env.reset()
            env.step("x")

        said = same(QUIZ, script, autoreset=True)
        ready = said[1]["answer"]["requests"][1]
        assert ready["initial_info"]["task_id"] == said[3]["answer"]["info"]["task_id"]

    def test_wrong_tasks_are_refused_and_the_episode_goes_on(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(task="add-7")
            for wrong in ("add-07", "", 250, -251, True, 1.5, 1.0, [1], {"id": ""}, {"id": [1]}, {"split": 1}):
                env.reset(task=wrong)
            env.step("14")

        said = same(QUIZ, script)
        errors = [line["error"] for line in said if "error" in line]
        assert len(errors) == 11
        assert errors[0]["hint"] == "did you mean 'add-207'?"
        assert said[-2]["answer"]["info"]["task_id"] == "add-7"

    def test_an_environment_without_tasks_refuses_them(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(task=1)
            env.reset(task={"id": "a"})

        assert all("no option 'task'" in line["error"]["message"] for line in same("lineworld", script)[:2])

    def test_every_end_names_the_task(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(task="add-1")
            env.reset(task="add-2")
            env.step("fail")
            env.reset(task="add-3")

        said = same(QUIZ, script)
        assert [ends(line) for line in said] == [[], ["closed"], ["infra_error"], [], ["closed"]]
        requests = [request for line in said for request in answer(line)["requests"]]
        found = [each["final_info"]["task_id"] for each in requests if each["kind"] == "episode_end"]
        assert found == ["add-1", "add-2", "add-3"]

    def test_branches_keep_the_task_and_the_draws(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=5)
            env.step("later")
            here = env.snapshot()
            twin = env.fork()
            for one in (env, twin):
                one.step("x")
                for _ in range(3):
                    one.reset()
            env.restore(here)
            env.step("10")
            for _ in range(3):
                env.reset()
            env.restore(here)
            env.close()
            twin.close()

        said = same(QUIZ, script)
        drawn = [line["answer"]["info"]["task_id"] for line in said if line["call"] == "reset"]
        assert drawn[1:4] == drawn[4:7] == drawn[7:10]

    @pytest.fixture
    def listing(self, connect: Connect) -> Any:
        with connect(QUIZ) as env:
            yield env.tasks

    def test_the_list_of_tasks_has_the_same_numbers_ids_splits_and_prompts(self, listing: Any) -> None:
        tasks = QuizEnv.tasks
        assert len(listing) == len(tasks)
        assert listing.ids == tasks.ids
        assert listing.splits == tasks.splits
        assert listing.split("test").ids == tasks.split("test").ids
        assert listing.split("test").splits == tasks.split("test").splits
        for found, task in zip(listing, tasks, strict=True):
            assert (found.id, found.split, found.prompt) == (task.id, task.split, task.prompt)
        for key in (0, 100, -1, "add-5"):
            assert listing[key].id == tasks[key].id
        assert [task.id for task in listing[98:103]] == list(tasks[98:103].ids)
        assert listing.by_seed(257).id == tasks.by_seed(257).id

    def test_the_list_refuses_what_tasks_refuse(self, listing: Any) -> None:
        for wrong in (250, -251, "add-07"):
            with pytest.raises(TaskNotFoundError) as here:
                QuizEnv.tasks[wrong]
            with pytest.raises(TaskNotFoundError) as there:
                listing[wrong]
            assert str(there.value) == str(here.value)
        with pytest.raises(TaskNotFoundError, match="splits: 'test', 'train'"):
            len(listing.split("dev"))
        assert len(listing) == 250
        with pytest.raises(TaskNotFoundError, match="splits: 'test', 'train'"):
            listing.split("dev")

    def test_the_list_has_no_hidden_field(self, connect: Connect) -> None:
        with connect(QUIZ) as env:
            for query in ({}, {"first": 240}, {"task": 3}, {"split": "test", "prompts": False}):
                listed = env.backend.call("tasks", query)
                assert SECRET not in json.dumps(to_json(listed))
                assert {name for task in listed["tasks"] for name in task} <= {"id", "split", "prompt"}

    def test_an_element_of_the_list_selects_the_task_with_all_its_fields(self, connect: Connect) -> None:
        with connect(QUIZ) as env, make(QUIZ) as here:
            found = env.reset(task=env.tasks[9])
            expected = here.reset(task=QuizEnv.tasks[9])
            assert to_json(found.observation) == to_json(expected.observation)
            assert found.info == expected.info

    def test_an_environment_without_tasks_has_no_list(self, connect: Connect) -> None:
        with connect("lineworld") as env:
            env.reset()
            assert env.tasks is None

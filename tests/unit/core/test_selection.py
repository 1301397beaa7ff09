"""Which task a reset selects, and where its ID is told. Environments in this process; the suites compare the others."""

import asyncio

import pytest

import envweave as ew
from envweave.core.task import ListedTask
from envweave.errors import TaskNotFoundError, UnsupportedError

ROWS = [{"id": name, "prompt": f"{name}?", "answer": name.upper()} for name in "abcdefgh"]


class Quiz:
    tasks = ew.Tasks(ROWS)

    def reset(self, *, task, seed=None):
        self.task, self.seed = task, seed
        return task.prompt

    def step(self, action: str):
        if action == "fail":
            raise ZeroDivisionError
        return action, float(action == self.task["answer"]), action != "wait", False, {"own": 1}


@pytest.fixture
def env():
    with ew.make(Quiz) as handle:
        yield handle


def selected(env, **arguments):
    """The ID of the task, as the framework and the environment say it."""
    result = env.reset(**arguments)
    assert result.info["task_id"] == env.unwrapped.task.id
    return result.info["task_id"]


def test_a_task_is_selected_by_index_id_row_and_seed(env):
    assert [selected(env, task=task) for task in (0, -1, "c", ew.Task(ROWS[3]), ROWS[4])] == ["a", "h", "c", "d", "e"]
    assert [selected(env, seed=seed) for seed in (0, 1, 9)] == ["a", "b", "b"]
    assert env.unwrapped.seed == 9
    assert selected(env, task="c", seed=1) == "c"
    assert env.unwrapped.seed == 1
    assert selected(env, options={"task": "d"}) == "d"
    assert selected(env, task=ListedTask("e")) == "e"


def test_a_row_of_the_trainers_need_not_be_in_the_list(env):
    assert selected(env, task={"id": "new", "prompt": "n?", "answer": "N"}) == "new"
    assert env.step("N").reward == 1.0
    unnamed = {"prompt": "n?", "answer": "N"}
    assert selected(env, task=unnamed) == ew.Task(unnamed).id


@pytest.mark.parametrize("listed", [True, False])
def test_what_an_environment_does_to_a_row_of_the_trainers_affects_nobody_else(listed):
    class Uses:
        tasks = Quiz.tasks if listed else None

        def reset(self, *, task):
            self.left = task["tests"]
            return len(self.left)

        def step(self, action):
            self.left.clear()
            return 0, 0.0, True, False, {}

    row = {"id": "a", "tests": [1, 2]}
    for given in (row, ew.Task(row)):
        with ew.make_vector(Uses, 2) as vector:
            assert vector.reset(task=given).obs == [2, 2]
            vector.step([0], ids=[0])
            assert (vector.reset(ids=[0], task=given).obs, given["tests"]) == ([2], [1, 2])
    with ew.make(Uses) as env, pytest.raises(ew.UsageError, match="the field 'tests' of a task cannot be copied"):
        env.reset(task={"id": "a", "tests": (n for n in range(3))})


def test_resets_without_a_seed_draw_and_a_seed_makes_the_draws_repeat(env):
    def run(seed):
        first = selected(env, seed=seed)
        return [first, *(selected(env) for _ in range(6)), selected(env, task="a"), *(selected(env) for _ in range(6))]

    assert run(3) == run(3)
    assert run(3) != run(11)  # the same first task
    assert len(set(run(5))) > 3
    with ew.make(Quiz) as one, ew.make(Quiz) as other:
        assert [selected(one) for _ in range(20)] != [selected(other) for _ in range(20)]


def test_draws_are_the_same_in_every_version_and_on_every_machine(env):
    selected(env, seed=0)
    assert "".join(selected(env) for _ in range(8)) == "hfchgecd"


def test_draws_do_not_touch_the_global_generator(env):
    import random

    random.seed(1)
    state = random.getstate()
    env.reset()
    env.reset(seed=1)
    assert random.getstate() == state


def test_autoreset_draws_as_resets_do():
    with ew.make(Quiz, autoreset=True) as auto, ew.make(Quiz) as plain:
        auto.reset(seed=2)
        plain.reset(seed=2)
        for _ in range(5):
            ready = next(r for r in auto.step("x").requests if isinstance(r, ew.AutoresetReady))
            assert ready.initial_info["task_id"] == selected(plain)


def test_the_task_is_named_in_the_first_and_the_last_info_and_not_between(env):
    assert env.reset(task="b").info == {"task_id": "b"}
    assert env.step("wait").info == {"own": 1}
    last = env.step("B")
    assert last.info == {"own": 1, "task_id": "b"}
    (end,) = last.requests
    assert end.final_info == {"own": 1, "task_id": "b"}


def test_every_kind_of_end_names_the_task(env):
    def ends(requests):
        return [(r.reason, r.final_info.get("task_id")) for r in requests if isinstance(r, ew.EpisodeEnd)]

    env.reset(task="a")
    assert ends(env.reset(task="b").requests) == [("closed", "a")]
    with pytest.raises(ew.EnvError) as failed:
        env.step("fail")
    assert ends(failed.value.requests) == [("infra_error", "b")]
    assert failed.value.result.info["task_id"] == "b"
    env.reset(task="c")
    assert ends(env.close()) == [("closed", "c")]

    class Own(Quiz):
        def step(self, action: str):
            return ew.StepResult("x", requests=[ew.EpisodeEnd(reason="truncated", final_info={"k": 1})])

    with ew.make(Own) as own:
        own.reset(task="d")
        (end,) = own.step("x").requests
        assert end.final_info == {"k": 1, "task_id": "d"}

    now = [0.0]
    from envweave.plan import EnvPlan

    slow = ew.EnvHandle(EnvPlan(ew.EnvSpec(id="slow", factory=Quiz, deadline=1.0), clock=lambda: now[0]).open("slow#0"))
    slow.reset(task="e")
    now[0] = 2.0
    late = slow.step("x")
    assert ends(late.requests) == [("timeout", "e")]
    assert late.info["task_id"] == "e"


def test_an_episode_without_steps_keeps_the_metadata_of_its_observation():
    class Noted(Quiz):
        def reset(self, *, task):
            self.seen = ew.Observation(metadata={"m": 1})
            return self.seen

    with ew.make(Noted) as env:
        assert env.reset(task=0).info == {"m": 1, "task_id": "a"}
        assert env.unwrapped.seen.metadata == {"m": 1}


@pytest.mark.parametrize(
    ("task", "message", "hint"),
    [
        ("bb", "no task 'bb'", "did you mean 'b'?"),
        (8, "no task 8", "tasks are numbered 0 to 7"),
        (True, "task is True", "pass an index, an ID or a mapping"),
        (1.0, "task is 1.0", "pass an index, an ID or a mapping"),
        (["a"], "task is ['a']", "pass an index, an ID or a mapping"),
        ({"id": ""}, "a task has an empty id", "leave the id out, or give it a name"),
    ],
)
def test_a_wrong_task_is_refused_and_the_episode_goes_on(env, task, message, hint):
    env.reset(task="c")
    with pytest.raises(ew.UsageError) as refused:
        env.reset(task=task)
    assert (refused.value.message, refused.value.hint) == (message, hint)
    assert env.step("C").info["task_id"] == "c"


def test_a_wrong_seed_is_refused(env):
    with pytest.raises(ew.UsageError, match="seed is 'x'"):
        env.reset(seed="x")


def test_an_environment_that_refuses_a_task_has_not_changed():
    class Picky(Quiz):
        def reset(self, *, task):
            if task.id != "a":
                raise ew.UsageError("too hard")
            return super().reset(task=task)

    with ew.make(Picky) as env:
        env.reset(task="a")
        with pytest.raises(ew.UsageError, match="too hard"):
            env.reset(task="b")
        assert env.step("A").info["task_id"] == "a"


def test_a_task_that_cannot_be_played_is_not_drawn_for_ever():
    class Breaks(Quiz):
        def reset(self, *, task, seed=None):
            self.drawn = [*getattr(self, "drawn", []), task.id]
            if seed is None:
                raise ZeroDivisionError
            return 0

    with ew.make(Breaks) as env:
        env.reset(seed=1)
        for _ in range(20):
            with pytest.raises(ew.EnvError):
                env.reset()
        assert len(set(env.unwrapped.drawn[1:])) > 1


def test_forks_and_snapshots_keep_the_task_and_the_draws(env):
    env.reset(seed=1)
    here = env.snapshot()
    twin = env.fork()
    drawn = [selected(env) for _ in range(4)]
    assert [selected(twin) for _ in range(4)] == drawn
    env.restore(here)
    assert env.step("B").info["task_id"] == "b"
    assert [selected(env) for _ in range(4)] == drawn
    twin.close()


def test_a_fork_shares_the_tasks(env):
    env.reset()
    with env.fork() as twin:
        assert twin.tasks is env.tasks is Quiz.tasks


def test_a_handle_knows_the_tasks_and_middleware_passes_them_on(env):
    assert env.tasks is env.aio.tasks is Quiz.tasks

    def nothing(kind, data):
        return (yield kind, data)

    assert env.with_middleware(nothing).tasks is Quiz.tasks
    assert ew.make("counter").tasks is None
    assert asyncio.run(env.tasks.fetch()) is Quiz.tasks


def test_an_environment_without_tasks_gets_what_was_passed_and_a_mapping_as_a_task():
    class Free:
        def reset(self, *, task=None):
            self.task = task
            return 0

        def step(self, action):
            return 0, 0.0, True, False, {}

    with ew.make(Free) as env:
        for given in (3, "x", [1, 2]):
            assert env.reset(task=given).info == {}
            assert env.unwrapped.task == given
        assert env.reset(task={"id": "a", "prompt": "p"}).info == {"task_id": "a"}
        assert isinstance(env.unwrapped.task, ew.Task)
        assert env.unwrapped.task.prompt == "p"
        assert env.reset().info == {}
        assert env.unwrapped.task is None
        assert env.step(0).info == {}
        assert env.tasks is None
        with pytest.raises(UnsupportedError, match="has no tasks"):
            env.backend.call("tasks")


def test_a_task_that_is_required_and_missing_is_refused():
    class Needs:
        def reset(self, *, task):
            return task

        def step(self, action):
            return 0

    with ew.make(Needs) as env:
        with pytest.raises(ew.UsageError, match="reset needs 'task'"):
            env.reset()
        assert env.reset(task=1).obs == 1


def test_an_environment_that_takes_no_task_refuses_it():
    class Plain:
        tasks = Quiz.tasks

        def reset(self, *, seed=None, size=1):
            return 0

        def step(self, action):
            return 0

    with ew.make(Plain) as env:
        with pytest.raises(ew.UsageError, match="reset has no option 'task'") as refused:
            env.reset(task=1)
        assert refused.value.hint == "this environment has no tasks; its options: size"
        assert env.reset(seed=1).info == {}
        assert env.tasks is None


def test_other_arguments_of_reset_work_beside_the_task():
    class Options(Quiz):
        def reset(self, *, task, options=None, **others):
            return [task.id, options, sorted(others)]

    with ew.make(Options) as env:
        assert env.reset(task=1, options={"k": 1}, own=2).obs == ["b", {"k": 1}, ["own"]]


def test_tasks_may_be_replaced_between_episodes(env):
    env.unwrapped.tasks = Quiz.tasks[6:]
    assert selected(env, seed=1) == "h"
    env.unwrapped.tasks = Quiz.tasks[8:]
    for arguments in ({}, {"seed": 1}, {"task": 0}):
        with pytest.raises(ew.UsageError, match="no task"):
            env.reset(**arguments)


def test_tasks_that_fail_are_the_authors_failure():
    class Broken(Quiz):
        @property
        def tasks(self):
            raise ZeroDivisionError

    class Mapped(Quiz):
        tasks = Quiz.tasks.map(lambda task: {"prompt": task["no such field"]})

    with ew.make(Broken) as env, pytest.raises(ew.EnvError, match=r"tasks of .* raised ZeroDivisionError"):
        env.reset()
    with ew.make(Mapped) as env, pytest.raises(ew.EnvError, match=r"tasks of .* raised KeyError"):
        env.reset(task=0)


def test_an_async_environment_has_tasks_too():
    class Async(ew.AsyncEnvironment):
        tasks = Quiz.tasks

        async def reset(self, *, task, seed=None):
            return task.prompt

        async def step(self, action: str):
            return action, 1.0, True, False, {}

    async def play():
        async with await ew.aio.make(Async, autoreset=True) as env:
            assert (await env.reset(task="b")).info == {"task_id": "b"}
            assert (await env.reset(seed=3)).info == {"task_id": "d"}
            assert (await env.step("x")).info == {"task_id": "d"}
            with pytest.raises(TaskNotFoundError):
                await env.reset(task="bb")

    asyncio.run(play())


def test_several_agents_have_one_task():
    class Team:
        agents = ("one", "two")
        tasks = Quiz.tasks

        def reset(self, *, task, seed=None):
            return dict.fromkeys(self.agents, task.prompt), {"one": {"k": 1}}

        def step(self, actions):
            return {}, {}, {"__all__": True}, {}, {}

    with ew.make(Team) as env:
        assert env.reset(task="b").info == {"one": {"k": 1}, "task_id": "b"}
        last = env.step({"one": 1, "two": 2})
        assert last.info == last.requests[-1].final_info == {"task_id": "b"}


def test_a_list_of_tasks_says_nothing_but_ids_splits_and_prompts(env):
    listed = env.backend.call("tasks", {"first": 1, "count": 2})
    assert listed == {"number": 8, "splits": {}, "tasks": [{"id": n, "prompt": f"{n}?"} for n in "bc"]}
    assert env.backend.call("tasks", {"first": 7, "prompts": False})["tasks"] == [{"id": "h"}]
    assert env.backend.call("tasks", {"task": "c"})["tasks"] == [{"id": "c", "prompt": "c?"}]
    assert env.backend.call("tasks", {"first": 99})["tasks"] == []
    for wrong in ({"first": -1}, {"count": "x"}, {"task": "z"}, {"task": {"id": "a"}}, {"split": "test"}):
        with pytest.raises(ew.UsageError):
            env.backend.call("tasks", wrong)

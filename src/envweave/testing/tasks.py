"""Checks of tasks: what selects the same task begins the same episode."""

from __future__ import annotations

from random import Random

from envweave.testing.episode import PlayedEpisode
from envweave.testing.report import Problem, Problems, SkippedError, attempt, problem_of
from envweave.testing.seeding import difference
from envweave.testing.trial import Trial

_STEADY = "make Tasks once, in the module or the class, and change neither their order nor their IDs"
_SEEDED = "let reset set up everything from `task` and `seed` alone"


def check_tasks(trial: Trial) -> Problems:
    """A task is the same one by index, by ID and by seed, and twice the same task is twice the same episode."""
    _ = trial.sound
    handle, env = trial.first.handle, trial.first.env
    tasks, error = attempt(lambda: handle.tasks)
    if error is not None:
        yield problem_of(error, "see that `tasks` can be read", what="tasks")
        return
    if tasks is None:
        if not callable(getattr(type(getattr(env, "tasks", None)), "by_seed", None)):
            raise SkippedError("it has no tasks")
        yield Problem("it has `tasks`, but its reset takes no `task`", "write `def reset(self, *, task, seed=None)`")
        return
    ids, error = attempt(lambda: tasks.ids)
    if error is not None:
        yield problem_of(error, "correct the tasks", what="tasks")
        return
    if trial.failed("seed_repeats"):
        raise SkippedError("cannot be told while `seed_repeats` has a finding")
    for number in sorted({0, len(ids) // 2, len(ids) - 1}):
        problem = _selected_apart(trial, number, ids[number])
        if problem is not None:
            yield problem
            return


def _selected_apart(trial: Trial, number: int, id: str) -> Problem | None:
    """The first difference between episodes of one task, which the seed `number` selects too."""
    first = PlayedEpisode(number, task=number)
    trial.first.play_into(first, Random(f"task {number}"), trial.max_steps)
    for name, task in (("by ID", id), ("by seed", None), ("again", number)):
        again = PlayedEpisode(number, task=task)
        trial.first.replay_into(again, first.actions, trial.max_steps)
        for episode in (first, again):
            if episode.failure is not None and episode.failure.call == "reset":
                return problem_of(episode.failure.error, f"try it: env.reset(task={id!r})", what="reset")
            told = episode.frames[0].result.info.get("task_id")
            if told != id:
                return Problem(f"task {number} is {id!r} in the list, and {told!r} when it is selected {name}", _STEADY)
        problem = difference(first, again, f"for task {id!r}, selected by index and {name}", _SEEDED)
        if problem is not None and problem.severity == "error":
            return problem
    return None

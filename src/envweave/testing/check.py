"""`check_env`: hold any environment against the contract, and say for each thing that is wrong how to mend it.

Covered: what `reset` and `step` return, seeds, tasks, independence of instances, the request stream, the end of
episodes, JSON, types and docstrings, closing. Not covered: an environment that hangs, speed, whether it makes sense.
"""

from __future__ import annotations

from typing import Any

from envweave.errors import UsageError
from envweave.testing import data, declared, life, seeding, shapes, stream, tasks
from envweave.testing.chance import chance
from envweave.testing.report import Report
from envweave.testing.subject import Subject
from envweave.testing.trial import Check, Trial

CHECKS: tuple[Check, ...] = (
    life.check_environment,
    life.check_factory,
    declared.check_agents,
    shapes.check_reset,
    shapes.check_observation_type,
    shapes.check_step,
    shapes.check_reward,
    shapes.check_done_flags,
    declared.check_action_schema,
    declared.check_docstrings,
    declared.check_dataclasses,
    seeding.check_seed_repeats,
    seeding.check_seed_repeats_across_instances,
    seeding.check_seed_matters,
    seeding.check_refused_action,
    seeding.check_interleaving,
    tasks.check_tasks,
    data.check_aliasing,
    stream.check_requests,
    stream.check_tool_calls,
    stream.check_episode_ends,
    stream.check_step_after_end,
    stream.check_fresh_episode,
    data.check_json,
    life.check_reset_options,
    life.check_close,
)
"""In this order: a check may leave out what an earlier one has found broken."""


def check_env(id_or_env: Any, *, seed: int = 0, episodes: int = 3, max_steps: int = 1000, **kwargs: Any) -> Report:
    """Check an environment given by ID, spec, class, factory or instance; `kwargs` go to its factory.

    Plays `episodes` random episodes of at most `max_steps` steps, and plays them again. What the environment does wrong
    is never raised, Ctrl-C is; a wrong ID or argument is a `UsageError`. An instance is closed afterwards, and what
    takes a second one is skipped. The global random generators are left as they were.
    """
    if episodes < 1 or max_steps < 1:
        raise UsageError(f"episodes={episodes}, max_steps={max_steps}", "use positive numbers")
    subject = Subject(id_or_env, kwargs)
    with chance():
        trial = Trial(subject, seed=seed, episodes=episodes, max_steps=max_steps)
        try:
            for check in CHECKS:
                trial.run(check.__name__.removeprefix("check_"), check)
        finally:
            trial.close()
    return trial.report()

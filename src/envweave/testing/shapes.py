"""Checks of what `reset` and `step` return."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from envweave.core.return_values import read_flag, read_reward, read_step
from envweave.errors import BadResultError, EnvError
from envweave.results import StepResult
from envweave.testing.episode import NOTHING, FailedCall
from envweave.testing.prints import fingerprint
from envweave.testing.report import Problem, Problems, SkippedError, problem_of
from envweave.testing.trial import Trial, by_agent


def check_reset(trial: Trial) -> Problems:
    """It works, again and again, and returns something with a meaning."""
    fix = f"try it: env.reset(seed={trial.episodes[-1].seed})"
    for episode in trial.episodes:
        if episode.failure is not None and episode.failure.call == "reset":
            yield problem_of(episode.failure.error, fix, what="reset")
            return
    raw = trial.episodes[0].frames[0].raw
    declared = trial.types.observation is not None or hasattr(trial.first.env, "observation_space")
    if isinstance(raw, tuple) and not (len(raw) == 2 and isinstance(raw[1], Mapping)) and not declared:
        message = f"reset returned a tuple of {len(raw)} values, which is taken for the observation itself"
        yield Problem(message, "return (observation, info) with a dict as info, or declare the type", "warning")


def check_observation_type(trial: Trial) -> Problems:
    """Each observation is of the declared type, or in the declared space."""
    judged = False
    for frame in trial.frames:
        for where, agent, value in by_agent(trial.first, frame.result.observation):
            misfit = _misfit(trial, agent, value)
            judged = judged or misfit is not None
            if misfit:
                yield Problem(
                    f"{where} of a {frame.call} does not fit: {misfit}", "return what is declared, or declare it"
                )
                return
    if not judged:
        raise SkippedError("no observation type is declared, or none that can be checked")


def _misfit(trial: Trial, agent: str | None, value: Any) -> str | None:
    """What is wrong with an observation, empty if nothing is, None if there is nothing to hold it against."""
    from envweave.core.schema import explain, json_schema, validate  # pydantic, for those who declare a type

    space: Any = getattr(trial.first.env, "observation_space", None)
    space = space(agent) if agent is not None and callable(space) else space
    if callable(getattr(space, "contains", None)):
        return "" if space.contains(value) else f"{fingerprint(value)} is not in {space}"
    declared = observation_type(trial, agent)
    if declared is None or json_schema(declared) is None:
        return None
    try:
        validate(declared, value)
    except ValueError as error:
        return explain(error)
    return ""


def observation_type(trial: Trial, agent: str | None) -> Any:
    """The declared type of one agent's observation, or None; `Any` declares nothing."""
    declared = trial.types.observation
    if agent is not None and typing.get_origin(declared) in (dict, Mapping):
        declared = typing.get_args(declared)[1]
    if isinstance(declared, dict):
        declared = declared.get(agent)
    return None if declared is Any else declared


def check_step(trial: Trial) -> Problems:
    """It works and returns something with a meaning."""
    watch = trial.first.watch
    for episode in trial.episodes:
        failure = episode.failure
        if failure is not None and failure.call == "step" and not _explained(failure):
            fix = f"try it: env.reset(seed={episode.seed}), then {len(episode.actions) + 1} steps with legal actions"
            yield problem_of(failure.error, fix, what="step")
            return
    if watch is not None and watch.transform_failure is not None:
        yield problem_of(
            watch.transform_failure, "mend it: a step whose transform raises has no reward", what="transform"
        )
    elif not any(episode.failure for episode in trial.episodes):
        _ = trial.steps


def _explained(failure: FailedCall) -> bool:
    """A finding about the reward or the flags says it better."""
    return failure.raw is not NOTHING and (any(_bad_rewards(failure.raw)) or any(_bad_flags(failure.raw)))


def check_reward(trial: Trial) -> Problems:
    """Each reward is a finite number, or None for "not scored"."""
    yield from _first(problem for raw in _raws(trial) for problem in _bad_rewards(raw))


def check_done_flags(trial: Trial) -> Problems:
    """What says that an episode is over is a boolean."""
    yield from _first(problem for raw in _raws(trial) for problem in _bad_flags(raw))


def _raws(trial: Trial) -> list[Any]:
    """What steps returned, that of a step which failed for it included."""
    failures = [episode.failure for episode in trial.episodes if episode.failure is not None]
    lost = [failure.raw for failure in failures if failure.call != "reset" and failure.raw is not NOTHING]
    raws = [frame.raw for frame in trial.frames if frame.call != "reset"] + lost
    return raws or [frame.raw for frame in trial.steps]


def _bad_rewards(raw: Any) -> Problems:
    try:
        reward = None if raw is None else read_step(raw).reward
    except (EnvError, AttributeError, TypeError, ValueError):
        return  # not to be read at all: a matter of `step`
    for value in reward.values() if isinstance(reward, Mapping) else [reward]:
        try:
            read_reward(value)
        except (BadResultError, TypeError, ValueError, OverflowError) as error:
            yield problem_of(error, "return a finite number, or None for `not scored`", what=f"reward {value!r}")


def _bad_flags(raw: Any) -> Problems:
    for name, flag in _flags(raw):
        for value in flag.values() if isinstance(flag, Mapping) else [flag]:
            try:
                read_flag(value, name)
            except (BadResultError, TypeError, ValueError) as error:
                yield problem_of(error, "return True or False", what=name)


def _flags(raw: Any) -> Iterator[tuple[str, Any]]:
    """The flags as the author gave them; read further, a text as `done` counts as true."""
    if isinstance(raw, StepResult):
        yield from (("terminated", raw.terminated), ("truncated", raw.truncated))
    elif isinstance(raw, tuple):
        names = {5: ("terminated", "truncated"), 4: ("done",)}.get(len(raw), ())
        yield from zip(names, raw[2:], strict=False)
    else:
        done = raw.get("done", False) if isinstance(raw, Mapping) else getattr(raw, "done", False)
        if not callable(done):
            yield "done", done


def _first(problems: Problems) -> Problems:
    """One is enough: the same mistake comes with each step."""
    found = next(problems, None)
    if found is not None:
        yield found

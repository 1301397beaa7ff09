"""Apply an environment's `transform`, which may set the reward, to what a step returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from envweave.core.return_values import read_reward, read_step
from envweave.errors import BadResultError, EnvError, UsageError, describe
from envweave.results import StepResult
from envweave.types import Observation

ObsT = TypeVar("ObsT", bound=Observation)
Transform = Callable[[Any], Any]


def transformed(transform: Transform | None, raw: Any) -> Any:
    """The step's return value with its observation transformed. A transform that raises leaves it unscored."""
    if transform is None:
        return raw
    if isinstance(raw, Observation):
        return scored(transform, raw)
    observation = raw[0] if isinstance(raw, tuple) and raw else getattr(raw, "observation", None)
    if isinstance(observation, Observation) and isinstance(raw, tuple | StepResult):
        return _rescored(transform, observation, raw)
    try:
        if isinstance(raw, tuple):
            return (transform(raw[0]), *raw[1:])
        if isinstance(raw, StepResult):
            return replace(raw, observation=transform(raw.observation))
        return transform(raw)
    except Exception as error:  # author's code: its failure is data, and never a reward of 0.0
        found = read_step(raw)
        info = {**found.info, "error": _reason(error)}
        return StepResult(found.observation, None, found.terminated, found.truncated, info, found.requests)


def _rescored(transform: Transform, observation: Observation, raw: Any) -> StepResult[Any]:
    """Transform a result whose observation has a field for the reward: the transform sees and sets it there.

    Of two rewards, the one beside the observation counts. A transform may end the episode; it cannot continue one
    that the environment has ended.
    """
    found = read_step(raw)
    if found.reward is not None:
        observation = replace(observation, reward=read_reward(found.reward))
    seen = read_step(scored(transform, observation))
    going_on = not (found.terminated or found.truncated or observation.done)
    terminated, truncated = seen[2:4] if going_on else found[2:4]
    return StepResult(seen.observation, seen.reward, terminated, truncated, {**found.info, **seen.info}, found.requests)


def scored(transform: Transform | None, observation: ObsT) -> ObsT:
    """The observation transformed, or without a reward and with the reason in its metadata."""
    if transform is None:
        return observation
    try:
        found: ObsT = transform(observation)
    except Exception as error:  # as above
        reason = _reason(error)
    else:
        try:
            _check(found)
            return found
        except BadResultError as error:
            reason = error.to_data()
    return replace(observation, reward=None, metadata={**observation.metadata, "error": reason})


def _check(found: Any) -> None:
    """Raise `BadResultError` for a value that is not an observation, or whose reward is not a number."""
    by_name = isinstance(found, Mapping)
    if not ("reward" in found or "done" in found if by_name else hasattr(found, "reward")):
        raise BadResultError(f"transform returned {found!r:.80}", "let it return the observation")
    try:
        read_reward(found.get("reward") if by_name else found.reward)
    except BadResultError as error:
        raise BadResultError(f"the transform's {error.message}", error.hint) from error


def check_transform(transform: Any) -> None:
    """Raise `UsageError` for a transform that is neither None nor callable."""
    if transform is not None and not callable(transform):
        raise UsageError(f"transform is {transform!r:.80}", "give a callable that takes an observation, or None")


def _reason(error: Exception) -> dict[str, str]:
    return EnvError(f"transform raised {describe(error)}").to_data()

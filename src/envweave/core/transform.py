"""Apply an environment's `transform`, which may set the reward, to what a step returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from envweave.core.shapes import read_step
from envweave.errors import EnvError, describe
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
    """A result whose observation has a place for the reward: it is handed in there, and read from there."""
    found = read_step(raw)
    if observation.reward is None and isinstance(found.reward, float | int):
        observation = replace(observation, reward=found.reward)
    seen = scored(transform, observation)
    info = {**found.info, **getattr(seen, "metadata", {})}
    return StepResult(seen, getattr(seen, "reward", None), found.terminated, found.truncated, info, found.requests)


def scored(transform: Transform | None, observation: ObsT) -> ObsT:
    """The observation transformed, or without a reward and with the reason in its metadata."""
    if transform is None:
        return observation
    try:
        found: ObsT = transform(observation)
        if isinstance(found, Mapping) or hasattr(found, "reward"):
            return found
        reason = EnvError(f"transform returned {found!r:.80}", "let it return the observation").to_data()
    except Exception as error:  # as above
        reason = _reason(error)
    return replace(observation, reward=None, metadata={**observation.metadata, "error": reason})


def _reason(error: Exception) -> dict[str, str]:
    return EnvError(f"transform raised {describe(error)}").to_data()

"""Apply an environment's `transform`, which may set the reward, to what a step returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from envweave.core.shapes import read_step
from envweave.errors import EnvError, describe
from envweave.results import StepResult


def transformed(transform: Callable[[Any], Any] | None, raw: Any) -> Any:
    """The step's return value with its observation transformed. A transform that raises leaves it unscored."""
    if transform is None:
        return raw
    try:
        if isinstance(raw, tuple):
            return (transform(raw[0]), *raw[1:])
        if isinstance(raw, StepResult):
            return replace(raw, observation=transform(raw.observation))
        return transform(raw)
    except Exception as error:  # author's code: its failure is data, and never a reward of 0.0
        observation, _, terminated, truncated, info, requests = read_step(raw)
        reason = EnvError(f"transform raised {describe(error)}").to_data()
        return StepResult(observation, None, terminated, truncated, {**info, "error": reason}, requests)

"""Named, weighted components, over a step or a whole trajectory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, TypeAlias

from envweave.errors import BadResultError, UsageError
from envweave.results import ResetResult, StepResult
from envweave.rewards.account import credited
from envweave.rewards.base import RewardTransform, Transform, checked_name
from envweave.rewards.scores import Scores

Component: TypeAlias = "Callable[[Any], Any] | RewardTransform | Rubric"
_FORM = "write name=(weight, function), name=function, or name=(weight, Rubric(…))"


class Rubric(Transform):
    """A sum of weighted scores, each with a name; a component may be a rubric again.

        Rubric(correct=(1.0, solved), style=(0.2, Rubric(short=short, documented=(2.0, documented))))

    Over a step it is a transform: `env.transform = rubric`. Over anything else it is `rubric.score(trajectory)`. The
    form is the same: `correct`, `style.short` and `style.documented`, each times all weights above it, add up to the
    total.

    A component is a function of what is scored and returns a number, a bool, numbers by name, or None for "not scored".
    One that raises is None with the reason, and so is the total, whatever its weight.
    """

    def __init__(self, components: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Names that are no identifiers come as a dict. Raises `UsageError` for a component without a meaning."""
        if components is not None and not isinstance(components, Mapping):
            raise UsageError(f"{components!r} is not a dict of components", _FORM)
        given = [*(components or {}).items(), *more.items()]
        if not given:
            raise UsageError("a rubric without components scores nothing", _FORM)
        self.components: dict[str, tuple[float, Component]] = {}
        for name, component in given:
            if checked_name(name) in self.components:
                raise UsageError(f"two components are named {name!r}", "give one of them another name")
            self.components[name] = _read(name, component)

    def score(self, subject: Any) -> Scores:
        """Score an observation, a `StepResult`, or a trajectory: a list of either.

        Functions get the subject as it is. Transforms are about one step: of a trajectory they score the last.
        """
        scores = Scores()
        self._score(subject, scores, "", 1.0)
        return scores

    def __call__(self, observation: Any) -> Any:
        return credited(observation, self.score(observation))

    def _score(self, subject: Any, scores: Scores, prefix: str, weight: float) -> None:
        for name, (own, component) in self.components.items():
            if isinstance(component, Rubric):
                component._score(subject, scores, f"{prefix}{name}.", weight * own)
            elif isinstance(component, RewardTransform):
                scores.add(prefix + name, partial(_score_last, component), subject, weight=weight * own)
            else:
                scores.add(prefix + name, component, subject, weight=weight * own)


def _read(name: str, given: Any) -> tuple[float, Component]:
    weight, component = given if isinstance(given, tuple) and len(given) == 2 else (1.0, given)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not isfinite(weight):
        raise UsageError(f"the weight of {name!r} is {weight!r}", f"use a finite number: {_FORM}")
    if not callable(component) or isinstance(component, type):
        raise UsageError(f"component {name!r} is {component!r}", _FORM)
    if inspect.iscoroutinefunction(component) or inspect.iscoroutinefunction(type(component).__call__):
        raise UsageError(
            f"component {name!r} is a coroutine function", "write `def`: scores are computed without waiting"
        )
    if isinstance(component, Transform) and not isinstance(component, Rubric | RewardTransform):
        raise UsageError(f"component {name!r} is a transform that does not score", "derive it from RewardTransform")
    return float(weight), component


def _score_last(transform: RewardTransform, subject: Any) -> Any:
    """What a transform, which is about one step, makes of a step or of the last of a trajectory."""
    if isinstance(subject, Sequence) and not isinstance(subject, str | bytes):
        if not subject:
            raise BadResultError("the trajectory is empty")
        subject = subject[-1]
    return transform.score(subject.observation if isinstance(subject, StepResult | ResetResult) else subject)

"""The reward system: named, weighted components over a step or a whole trajectory.

    class Short(RewardTransform):
        def score(self, observation):
            return 1.0 if len(observation.text) < 80 else 0.0

    env.transform = Rubric(short=(0.1, Short()), polite=lambda observation: "please" in observation.text)

A transform takes an observation and returns a new one. It must not change its argument, and must return the same reward
for the same observation. `Transform` may change anything; `RewardTransform` and `Rubric` only score.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf, isfinite
from typing import Any, TypeAlias

from envweave.core.return_values import read_reward
from envweave.errors import BadResultError, UsageError
from envweave.results import ResetResult, StepResult
from envweave.rewards.observation import changed, member, metadata_of
from envweave.rewards.scores import ENV, Score, Scores, Value, credited

_FORM = "write name=(weight, function), name=function, or name=(weight, Rubric(…))"


def _snake_case(name: str) -> str:
    """`CodeSafetyTransform` as `code_safety`."""
    short = name.removesuffix("Transform").strip("_") or name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", short).lower()


class Transform(ABC):
    """Takes an observation and returns a new one. If it raises, the reward is None, with the reason."""

    name: str
    """The name of its contribution: the class name in snake case, without "Transform", unless the class sets it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in cls.__dict__:
            cls.name = _snake_case(cls.__name__)

    @abstractmethod
    def __call__(self, observation: Any) -> Any:
        """The new observation. The argument must not be changed."""


class RewardTransform(Transform):
    """A transform that adds one contribution to the reward, and may end the episode."""

    @abstractmethod
    def score(self, observation: Any) -> Value | Score:
        """The contribution: a finite number, numbers by name, or None, which leaves the whole step unscored.

        `Score(value, notes, done)` adds notes to the metadata and may end the episode. If it raises, the contribution
        is None, with the reason.
        """

    def __call__(self, observation: Any) -> Any:
        scores = Scores()
        scores.add(self.name, self.score, observation)
        return credited(observation, scores)


Component: TypeAlias = "Callable[[Any], Any] | RewardTransform | Rubric"


class Rubric(Transform):
    """A sum of weighted scores, each with a name; a component may be another rubric.

        Rubric(correct=(1.0, solved), style=(0.2, Rubric(short=short, documented=(2.0, documented))))

    Over a step it is a transform: `env.transform = rubric`. Over a trajectory, call `rubric.score(steps)`. In both
    forms `correct`, `style.short` and `style.documented`, each times all weights above it, add up to the total.

    A component is a function that returns a number, a bool, numbers by name, or None for "not scored". If one raises,
    it is None with the reason, and so is the total, whatever its weight.
    """

    def __init__(self, components: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Names that are not identifiers come as a dict. Raises `UsageError` for a component without a meaning."""
        if components is not None and not isinstance(components, Mapping):
            raise UsageError(f"{components!r} is not a dict of components", _FORM)
        given = [*(components or {}).items(), *more.items()]
        if not given:
            raise UsageError("a rubric without components scores nothing", _FORM)
        self.components: dict[str, tuple[float, Component]] = {}
        for name, component in given:
            if checked_name(name) in self.components:
                raise UsageError(f"two components are named {name!r}", "give one of them another name")
            self.components[name] = _read_component(name, component)

    def score(self, subject: Any) -> Scores:
        """Score an observation, a `StepResult`, or a trajectory: a list of either.

        Functions receive the subject unchanged. Transforms score one step: the last of a trajectory.
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


class CompositeTransform(Transform):
    """Transforms in order; the reward is the sum of what they contribute.

    A member is a `RewardTransform`, a `Rubric`, or any callable from observation to observation, which contributes what
    it changes of the reward. Names come from the members, or are given: `{"bonus": add_bonus}`. If a member raises, its
    contribution is None with the reason, the others still run, and the total is None.
    """

    def __init__(self, transforms: Iterable[Callable[[Any], Any]] | Mapping[str, Callable[[Any], Any]]) -> None:
        """Raises `UsageError` for a member that cannot be called, and for two of the same name."""
        if not isinstance(transforms, Iterable):
            raise UsageError(f"{transforms!r} is not a list of transforms", "write CompositeTransform([first, second])")
        named = isinstance(transforms, Mapping)
        members = list(transforms.items()) if isinstance(transforms, Mapping) else [(_name(t), t) for t in transforms]
        self.transforms: tuple[Callable[[Any], Any], ...] = tuple(transform for _, transform in members)
        self._members: list[tuple[str, Callable[[Any], Any]]] = []
        taken = {ENV}
        for name, transform in members:
            if not callable(transform) or isinstance(transform, type):
                raise UsageError(f"transform {name!r} is {transform!r}", "give an object that takes an observation")
            if named and isinstance(transform, CompositeTransform):
                raise UsageError(f"{name!r} is a CompositeTransform, whose members have names", "put it in a list")
            if named or not isinstance(transform, CompositeTransform | Rubric):  # whose parts have names of their own
                if checked_name(name) in taken:
                    raise UsageError(f"the name {name!r} is taken", "give the transforms as a dict by name")
                taken.add(name)
            self._members.append((name, Rubric({name: transform}) if named and _only_scores(transform) else transform))

    def __call__(self, observation: Any) -> Any:
        observation = credited(observation, Scores()) if member(observation, "reward") is not None else observation
        for name, transform in self._members:
            observation = _applied(transform, name, observation)
        return observation


def _only_scores(transform: Any) -> bool:
    is_plain = isinstance(transform, RewardTransform) and type(transform).__call__ is RewardTransform.__call__
    return is_plain or isinstance(transform, Rubric)


def _applied(transform: Callable[[Any], Any], name: str, observation: Any) -> Any:
    """What a transform makes of a copy. If it has not added contributions, what it changes of the reward is one."""
    scores = Scores()
    before, metadata = member(observation, "reward"), metadata_of(observation)
    ledger = metadata.get("rewards", {})
    try:
        found = transform(changed(observation, metadata=metadata_of(observation)))
        if found is None:
            raise BadResultError("it returned None", "return the observation")
        made, reward = metadata_of(found), read_reward(member(found, "reward"))
        if ledger != made.get("rewards", ledger) and ledger.items() <= made["rewards"].items():
            return found
        if reward != before:
            scores.enter(name, None if reward is None else float(f"{reward - (before or 0.0):.15g}"))
        kept = {key: metadata[key] for key in ("rewards", "reward_errors", "error") if key in metadata}
        observation = changed(found, reward=before, metadata={**made, **kept})
    except Exception as error:  # a user's transform may raise anything
        scores.fail(name, error)
    return credited(observation, scores) if scores.parts else observation


def checked_name(name: Any) -> str:
    """The name of a contribution. Raises `UsageError` if it cannot be one; dots separate parts of parts."""
    if not isinstance(name, str) or not name or "." in name:
        raise UsageError(f"{name!r} cannot name a contribution", "use a text without dots")
    return name


def checked_number(name: str, value: Any, *, least: float = -inf) -> float:
    """A finite number of at least `least`. Raises `UsageError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < least:
        hint = "give a finite number" if least == -inf else f"give a number of at least {least:g}"
        raise UsageError(f"{name} is {value!r}", hint)
    return value


def _name(transform: Any) -> str:
    if isinstance(transform, Transform):
        return transform.name
    return _snake_case(getattr(transform, "__name__", type(transform).__name__).strip("<>"))


def _read_component(name: str, given: Any) -> tuple[float, Component]:
    weight, component = given if isinstance(given, tuple) and len(given) == 2 else (1.0, given)
    checked_number(f"the weight of {name!r}", weight)
    if not callable(component) or isinstance(component, type):
        raise UsageError(f"component {name!r} is {component!r}", _FORM)
    if inspect.iscoroutinefunction(component) or inspect.iscoroutinefunction(type(component).__call__):
        raise UsageError(f"component {name!r} is a coroutine function", "write `def`: scores do not wait")
    if isinstance(component, Transform) and not isinstance(component, Rubric | RewardTransform):
        raise UsageError(f"component {name!r} is a transform that does not score", "derive it from RewardTransform")
    return float(weight), component


def _score_last(transform: RewardTransform, subject: Any) -> Any:
    """Score a step, or the last one of a trajectory."""
    if isinstance(subject, Sequence) and not isinstance(subject, str | bytes):
        if not subject:
            raise BadResultError("the trajectory is empty")
        subject = subject[-1]
    return transform.score(subject.observation if isinstance(subject, StepResult | ResetResult) else subject)

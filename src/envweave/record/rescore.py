"""Apply a rubric to stored episodes, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

from envweave.errors import UnsupportedError, UsageError
from envweave.record.reader import RecordedEpisode
from envweave.requests import DEFAULT_AGENT
from envweave.results import StepResult
from envweave.rewards.scores import ENV


class RecordedObservation(dict[str, Any]):
    """An observation of a record: fields are attributes and keys, as rubrics expect of observations."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the recorded observation has no field {name!r}") from None


@dataclass(frozen=True)
class Rescored:
    """An episode with the rewards of another rubric."""

    events: list[dict[str, Any]]
    """Its lines, with new rewards."""
    before: float | None
    """The return as it was recorded."""
    after: float | None
    parts: dict[str, float | None]
    """The contributions to the return by name."""


def rescore(episode: RecordedEpisode, rubric: Any, *, over: str = "step") -> Rescored:
    """Score each step as `env.transform = rubric` would, or with `over="episode"` the trajectory as a whole.

    What the environment gave by itself, the contribution `env`, is kept where steps are scored. Raises
    `UnsupportedError` for an episode that cannot be scored again: several agents, forks, and observations that the
    record does not have.
    """
    score = getattr(rubric, "score", None)
    if not callable(score):
        raise UsageError(f"{rubric!r:.80} is not a rubric", "give an object with a method `score`")
    if getattr(rubric, "pure", True) is False:
        raise UnsupportedError("the rubric says that it is not pure: the same step may get another score")
    if over not in ("step", "episode"):
        raise UsageError(f"over is {over!r}", "use 'step' or 'episode'")
    _check(episode)
    events = [dict(event) for event in episode.events]
    steps = [event for event in events if event.get("kind") in ("step", "respond")]
    if over == "episode":
        parts = dict(_scored(score, [_result(event) for event in steps]))
        total = _total(parts)
        for event in steps:
            event.pop("rewards", None)
            event["reward"] = None
        if steps:
            steps[-1]["reward"], steps[-1]["rewards"] = total, parts
    else:
        parts = _score_steps(score, steps)
        totals = [event["reward"] for event in steps if event["reward"] is not None]
        total = fsum(totals) if totals else None
    returns = {} if total is None else {DEFAULT_AGENT: total}
    events[-1] = {**events[-1], "return": returns, "rewards": parts}
    return Rescored(events, episode.returns.get(DEFAULT_AGENT), total, parts)


def _score_steps(score: Any, steps: list[dict[str, Any]]) -> dict[str, float | None]:
    sums: dict[str, float | None] = {}
    for event in steps:
        own = _own_reward(event)
        parts = {**({} if own is None else {ENV: own}), **_scored(score, _result(event).observation)}
        event["reward"], event["rewards"] = _total(parts), parts
        for name, value in parts.items():
            if value is not None:
                sums[name] = (sums.get(name) or 0.0) + value
            else:
                sums.setdefault(name, None)
    return sums


def _scored(score: Any, subject: Any) -> dict[str, float | None]:
    found = score(subject)
    parts = getattr(found, "parts", None)
    if isinstance(parts, Mapping):
        return dict(parts)
    value = getattr(found, "value", found)
    return {"score": None if value is None else float(value)}


def _result(event: dict[str, Any]) -> StepResult[Any, Any, Any]:
    observation = event.get("obs")
    if isinstance(observation, dict):
        metadata = observation.get("metadata")
        kept = {k: v for k, v in metadata.items() if k not in ("rewards", "reward_errors")} if metadata else {}
        fields = {name: _view(value) for name, value in observation.items()}
        observation = RecordedObservation({**fields, "metadata": kept, "reward": _own_reward(event)})
    flags = bool(event.get("terminated")), bool(event.get("truncated"))
    return StepResult(observation, _own_reward(event), *flags, event.get("info"))


def _view(value: Any) -> Any:
    return RecordedObservation({k: _view(v) for k, v in value.items()}) if isinstance(value, dict) else value


def _own_reward(event: dict[str, Any]) -> float | None:
    """What the environment gave without a rubric."""
    parts = event.get("rewards")
    return parts.get(ENV) if isinstance(parts, dict) else event.get("reward")


def _total(parts: Mapping[str, float | None]) -> float | None:
    values = [value for value in parts.values() if value is not None]
    return fsum(values) if parts and len(values) == len(parts) else None


def _check(episode: RecordedEpisode) -> None:
    if episode.header.get("agents") or any(isinstance(step.get("reward"), dict) for step in episode.steps):
        raise UnsupportedError(f"episode {episode.id} has several agents", "a rubric scores one")
    if episode.header.get("parent"):
        raise UnsupportedError(f"episode {episode.id} is a fork, whose first steps are in another episode")
    for step in episode.steps:
        if isinstance(step.get("obs"), dict) and "not_json" in step["obs"]:
            raise UnsupportedError(f"step {step['n']} of {episode.id} has no observation in the record")
    if episode.end is None:
        raise UnsupportedError(f"episode {episode.id} is not finished")

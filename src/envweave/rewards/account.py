"""Where rewards stand in an observation: contributions in `metadata["rewards"]`, the total in `reward`.

    metadata["rewards"]         each contribution by name; their sum is the reward
    metadata["reward_errors"]   by name, why a contribution is None
    metadata["error"]           the first of these, where failures of a step always stand

A reward that the environment gave by itself is a contribution too, named "env".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envweave.core.return_values import read_reward
from envweave.errors import BadResultError
from envweave.rewards.observation import changed, member, metadata_of
from envweave.rewards.scores import Scores, total

ENV = "env"
_KEYS = ("rewards", "reward_errors", "error")


def credited(observation: Any, scores: Scores) -> Any:
    """A copy of the observation with these contributions added to those that it has."""
    observation = settled(observation, ENV)
    metadata = metadata_of(observation)
    found = Scores(parts=_ledger(metadata))
    for name, value in scores.parts.items():
        try:
            found.enter(name, value)
        except BadResultError as error:  # the name is taken, or the sum too large
            found.fail(name, error)
    found.errors |= scores.errors
    return _written(observation, {**metadata, **scores.notes}, found)


def failed(observation: Any, name: str, error: Exception) -> Any:
    """A copy of the observation that says that this contribution could not be computed."""
    scores = Scores()
    scores.fail(name, error)
    return credited(observation, scores)


def settled(observation: Any, name: str) -> Any:
    """A copy in which whatever part of the reward no name stands for yet is a contribution of this name."""
    metadata = metadata_of(observation)
    parts = _ledger(metadata)
    known = total(parts)
    found = Scores(parts=parts)
    try:
        reward = read_reward(member(observation, "reward"))
        if reward == known or (reward is None and None in parts.values()):
            return observation
        earlier = parts.pop(name, 0.0)
        found.enter(name, None if reward is None or earlier is None else _gap(reward, known) + earlier)
    except BadResultError as error:
        found.fail(name, error)
    return _written(observation, metadata, found)


def _gap(reward: float, known: float | None) -> float:
    """What is missing from the sum, in 15 digits: 1.1 - 1.0 is 0.1 to everybody but floats."""
    return float(f"{reward - known:.15g}") if known else reward


def continued(observation: Any, before: Any) -> Any:
    """The observation with the account that it had before, if whoever made it has not kept that."""
    metadata, earlier = metadata_of(observation), metadata_of(before)
    missing = {key: earlier[key] for key in _KEYS if key in earlier and key not in metadata}
    return changed(observation, metadata={**metadata, **missing}) if missing else observation


def _ledger(metadata: Mapping[str, Any]) -> dict[str, float | None]:
    found = metadata.get("rewards")
    if found is None:
        return {}
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise BadResultError(
            f"metadata['rewards'] is a {type(found).__name__}, not numbers by name", "use another key for it"
        )
    return {name: read_reward(value) for name, value in found.items()}


def _written(observation: Any, metadata: dict[str, Any], found: Scores) -> Any:
    metadata["rewards"] = found.parts
    if found.errors:
        earlier = metadata.get("reward_errors")
        metadata["reward_errors"] = {**(earlier if isinstance(earlier, Mapping) else {}), **found.errors}
        metadata["error"] = next(iter(metadata["reward_errors"].values()))
    return changed(observation, reward=found.total, metadata=metadata)

"""Minari datasets, for environments whose observations and actions are arrays of fixed shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envweave.errors import UnavailableError, UnsupportedError
from envweave.record.reader import RecordedEpisode
from envweave.requests import DEFAULT_AGENT


def export_minari(episodes: Iterable[RecordedEpisode], dataset: str, *, keep_unscored: bool = False) -> int:
    """Create the dataset `name-v0` in Minari's folder. Returns how many episodes it has.

    Episodes without a score are left out; with `keep_unscored` their missing rewards are NaN. Raises
    `UnsupportedError` for observations or actions that are not arrays of one shape.
    """
    try:
        import minari
    except ImportError:
        raise UnavailableError("'minari' is not installed", "pip install minari h5py pillow") from None
    chosen = [episode for episode in episodes if keep_unscored or DEFAULT_AGENT in episode.returns]
    buffers = [buffer for number, episode in enumerate(chosen) if (buffer := _buffer(minari, episode, number))]
    if not buffers:
        raise UnsupportedError("no episode has a step and a score", "use keep_unscored for episodes without a score")
    spaces = {name: _space(name, buffers) for name in ("observations", "actions")}
    minari.create_dataset_from_buffers(
        dataset_id=dataset,
        buffer=buffers,
        observation_space=spaces["observations"],
        action_space=spaces["actions"],
        algorithm_name="envweave",
    )
    return len(buffers)


def _buffer(minari: Any, episode: RecordedEpisode, number: int) -> Any:
    import numpy as np

    steps = episode.steps
    begin = next((event for event in episode.events if event.get("kind") == "reset"), None)
    if not steps or begin is None:
        return None
    rewards = [np.nan if step["reward"] is None else step["reward"] for step in steps]
    return minari.EpisodeBuffer(
        id=number,
        seed=episode.header.get("seed"),
        observations=_array([event.get("obs") for event in (begin, *steps)], "observations", episode),
        actions=_array([step.get("action") for step in steps], "actions", episode),
        rewards=np.array(rewards, dtype=np.float64),
        terminations=np.array([bool(step["terminated"]) for step in steps]),
        truncations=np.array([bool(step["truncated"]) for step in steps[:-1]] + [_cut(steps[-1])]),
        infos={},
    )


def _cut(step: dict[str, Any]) -> bool:
    """The last step of an episode that was closed is a truncation: Minari has no other end."""
    return bool(step["truncated"]) or not step["terminated"]


def _array(values: list[Any], name: str, episode: RecordedEpisode) -> Any:
    import numpy as np

    plain = [_only_value(value) for value in values]
    try:
        found = np.array(plain)
    except ValueError:
        found = np.array([None])
    if found.dtype.kind not in "biuf":
        hint = "other episodes go to ATIF, messages or parquet"
        raise UnsupportedError(f"the {name} of episode {episode.id} are not arrays of one shape", hint)
    return found.astype(np.float32) if found.dtype.kind == "f" else found.astype(np.int64)


def _only_value(value: Any) -> Any:
    """The array of an observation that has one field besides those of every observation, else the value."""
    if isinstance(value, dict):
        own = {name: inner for name, inner in value.items() if name not in ("done", "reward", "metadata")}
        return next(iter(own.values())) if len(own) == 1 else value
    return value


def _space(name: str, buffers: list[Any]) -> Any:
    import numpy as np
    from gymnasium import spaces

    values = [getattr(buffer, name) for buffer in buffers]
    shapes = {value.shape[1:] for value in values}
    if len(shapes) != 1:
        raise UnsupportedError(f"the {name} have several shapes: {sorted(shapes)}")
    shape = shapes.pop()
    if values[0].dtype == np.int64 and not shape:
        low, high = min(int(value.min()) for value in values), max(int(value.max()) for value in values)
        return spaces.Discrete(high - low + 1, start=low)
    if values[0].dtype == np.int64:
        limits = np.iinfo(np.int64)
        return spaces.Box(limits.min, limits.max, shape, np.int64)
    return spaces.Box(-np.inf, np.inf, shape, np.float32)

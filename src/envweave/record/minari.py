"""Minari datasets, for environments whose observations and actions are arrays of fixed shapes."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from typing import Any
from warnings import catch_warnings, simplefilter

from envweave.errors import RecordError, UnavailableError, UnsupportedError
from envweave.record.reader import RecordedEpisode
from envweave.record.recorder import Recorder
from envweave.requests import DEFAULT_AGENT


def export_minari(episodes: Iterable[RecordedEpisode], dataset: str, *, keep_unscored: bool = False) -> int:
    """Create the dataset `name-v0` in Minari's folder. Returns how many episodes it has.

    Episodes without a score are left out; with `keep_unscored` their missing rewards are NaN. Raises
    `UnsupportedError` for observations or actions that are not arrays of one shape.
    """
    minari = _minari()
    from minari.data_collector import EpisodeBuffer

    chosen = [episode for episode in episodes if keep_unscored or DEFAULT_AGENT in episode.returns]
    buffers = [buffer for number, episode in enumerate(chosen) if (buffer := _buffer(EpisodeBuffer, episode, number))]
    if not buffers:
        raise UnsupportedError("no episode has a step and a score", "use keep_unscored for episodes without a score")
    spaces = {name: _space(name, buffers) for name in ("observations", "actions")}
    with catch_warnings():
        simplefilter("ignore", UserWarning)  # that there is no author and no link to code
        minari.create_dataset_from_buffers(
            dataset_id=dataset,
            buffer=buffers,
            observation_space=spaces["observations"],
            action_space=spaces["actions"],
            algorithm_name="envweave",
        )
    return len(buffers)


def import_minari(dataset: str, run: Recorder) -> int:
    """Add the episodes of a dataset that is in Minari's folder. Returns how many these are. Infos are left out."""
    try:
        found = _minari().load_dataset(dataset)
    except (OSError, ValueError) as error:
        raise RecordError(f"{dataset!r} is not a dataset of Minari: {error}", "minari list local") from None
    count = 0
    for episode in found.iterate_episodes():
        run.add(_events(episode, {"env": f"minari://{dataset}", "args": {"episode": int(episode.id)}}))
        count += 1
    return count


def _events(episode: Any, header: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"kind": "episode", **header}]
    events.append({"kind": "reset", "n": 0, "t": 0.0, "obs": _at(episode.observations, 0)})
    for number, reward in enumerate(episode.rewards):
        score = None if reward != reward else float(reward)  # NaN is "not scored"
        step = {"kind": "step", "n": number + 1, "t": 0.0, "action": _at(episode.actions, number)}
        step |= {"obs": _at(episode.observations, number + 1), "reward": score}
        flags = {"terminated": bool(episode.terminations[number]), "truncated": bool(episode.truncations[number])}
        events.append(step | flags)
    scores = [event["reward"] for event in events[2:] if event["reward"] is not None]
    last = events[-1]
    reason = next((flag for flag in ("terminated", "truncated") if last.get(flag)), "closed")
    returns = {DEFAULT_AGENT: fsum(scores)} if scores else {}
    return [*events, {"kind": "end", "n": last["n"], "t": 0.0, "reason": reason, "return": returns}]


def _at(values: Any, number: int) -> Any:
    """One step of arrays, which may be in dicts and tuples."""
    if isinstance(values, dict):
        return {name: _at(inner, number) for name, inner in values.items()}
    return [_at(inner, number) for inner in values] if isinstance(values, tuple) else values[number]


def _minari() -> Any:
    try:
        import minari
    except ImportError:
        raise UnavailableError("'minari' is not installed", "pip install minari h5py pillow") from None
    return minari


def _buffer(kind: Any, episode: RecordedEpisode, number: int) -> Any:
    import numpy as np

    steps = [event for event in episode.history if event.get("kind") in ("step", "respond")]
    begin = next((event for event in episode.history if event.get("kind") == "reset"), None)
    if not steps or begin is None:
        return None
    rewards = [np.nan if step["reward"] is None else step["reward"] for step in steps]
    return kind(
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

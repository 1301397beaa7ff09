"""Run a recorded episode again, with the same seed, task and actions, and find the first field that differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envweave.core.handle import EnvHandle
from envweave.errors import EnvWeaveError, UnsupportedError
from envweave.record.comparison import Difference, first_difference
from envweave.record.encoding import decode, encode
from envweave.record.lines import requests_data, reward_parts
from envweave.record.reader import RecordedEpisode
from envweave.record.redaction import Redactor
from envweave.results import ResetResult

COMPARED = ("obs", "reward", "rewards", "terminated", "truncated", "info", "requests")
"""Times and the names of instances are not compared: they differ in every run."""


def make_arguments(header: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The ID and the options of `make` for the environment of an episode."""
    options = {**(header.get("args") or {}), **(header.get("rules") or {})}
    backend = header.get("backend")
    return str(header.get("env")), options if backend in (None, "server", "thread") else {**options, "backend": backend}


def reset_arguments(header: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `reset` for an episode."""
    task = header.get("task") or {}
    given = {"seed": header.get("seed"), "task": task.get("given", task.get("id")), "episode_id": header["episode"]}
    own = header.get("reset") or {}
    return {**own, **{name: value for name, value in given.items() if value is not None}}


def replay(
    episode: RecordedEpisode, env: EnvHandle[Any, Any, Any, Any], to_step: int | None = None
) -> Difference | None:
    """Play the episode on a handle, up to a step, and return the first difference; None if there is none.

    A fork is played from the reset of its first ancestor. Raises `UnsupportedError` for an episode that cannot be
    replayed, and `RecordError` if an ancestor is not in the record.
    """
    redact = Redactor().redact
    root = _root(episode)
    begin = next((event for event in root.events if event.get("kind") == "reset"), None)
    if begin is None:
        raise UnsupportedError(f"episode {root.id} has no reset", "only episodes that began can be replayed")
    result = env.reset(**reset_arguments(root.header))
    difference = _compared(begin, result, redact)
    for event in episode.history:
        if difference is not None or (to_step is not None and event.get("n", 0) > to_step):
            break
        if event.get("kind") in ("step", "respond"):
            difference = _compared(event, _played(env, event), redact)
    return difference


def _root(episode: RecordedEpisode) -> RecordedEpisode:
    """The first ancestor."""
    while True:
        _check(episode)
        if episode.parent is None:
            return episode
        episode, _ = episode.parent


def _check(episode: RecordedEpisode) -> None:
    header = episode.header
    if header.get("autoreset"):
        raise UnsupportedError(f"episode {episode.id} began by autoreset, without a seed", "record resets with seeds")
    if header.get("restored"):
        raise UnsupportedError(f"episode {episode.id} began with a snapshot, which is not in the record", "use fork")
    if any(event.get("kind") == "log" and event.get("name") == "interrupted" for event in episode.events):
        raise UnsupportedError(f"a call in episode {episode.id} was interrupted, and its outcome is not known")


def _played(env: EnvHandle[Any, Any, Any, Any], event: dict[str, Any]) -> Any:
    try:
        if event["kind"] == "respond":
            return env.respond(event["request_id"], event.get("value"))
        return env.step(event.get("action"))
    except EnvWeaveError as error:
        if error.result is None:
            raise
        return error.result


def _compared(event: dict[str, Any], result: Any, redact: Callable[[bytes], bytes]) -> Difference | None:
    line: dict[str, Any] = {"obs": result.observation}
    if not isinstance(result, ResetResult):
        line |= {"reward": result.reward, "terminated": result.terminated, "truncated": result.truncated}
        line["rewards"] = reward_parts(result)
    line |= {"info": result.info, "requests": requests_data(result.requests, {})}
    found = decode(redact(encode({name: value for name, value in line.items() if value or name in event})))
    recorded = {name: event[name] for name in COMPARED if name in event}
    _align(recorded, found)
    ordered = {name: found[name] for name in COMPARED if name in found}
    difference = first_difference(recorded, ordered)
    return None if difference is None else Difference(event.get("n", 0), *difference)


def _align(recorded: dict[str, Any], found: dict[str, Any]) -> None:
    """Leave out what only the framework decides: ends of the episode before, repeated schemas, IDs of episodes."""
    for one in (recorded, found):
        if "reward" not in recorded and "requests" in one:  # a reset
            one["requests"] = [request for request in one["requests"] if request.get("kind") != "episode_end"]
    for name in ("reward", "terminated", "truncated"):
        if name in found and name not in recorded:
            del found[name]
    pairs = zip(recorded.get("requests", []), found.get("requests", []), strict=False)
    for one, other in pairs:
        if one.get("kind") == "need_action" and "action_schema" not in one:
            other.pop("action_schema", None)
        if one.get("kind") == other.get("kind") and "episode_id" in one:
            other["episode_id"] = one["episode_id"]

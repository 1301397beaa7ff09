"""Check the arguments of a vector's methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from math import isnan
from operator import index
from typing import Any

from envweave.errors import ResetNeededError, UsageError


def chosen_ids(ids: Sequence[int] | None, count: int) -> list[int]:
    """The environments named, or all of them."""
    if ids is None:
        return list(range(count))
    try:
        chosen = [index(id) for id in ids]
    except TypeError:
        raise UsageError(f"{ids!r} does not name environments", "pass a list of numbers") from None
    wrong = [id for id in chosen if not 0 <= id < count]
    if wrong or len(set(chosen)) != len(chosen):
        what = f"no environment {wrong[0]}" if wrong else f"an environment twice in {chosen}"
        raise UsageError(what, f"environments are numbered 0 to {count - 1}")
    return chosen


def matched_actions(
    actions: Sequence[Any] | dict[int, Any], ids: Sequence[int] | None, count: int
) -> tuple[list[int], Sequence[Any]]:
    """Each environment with its action."""
    if actions.__class__ is list and ids is None and len(actions) == count:  # nearly always
        return list(range(count)), actions
    if isinstance(actions, dict) and ids is None:
        return chosen_ids(list(actions), count), list(actions.values())
    chosen = chosen_ids(ids, count)
    if isinstance(actions, str | bytes | dict) or not hasattr(actions, "__len__"):
        raise UsageError(f"actions are a {type(actions).__name__}, not a list", "one action for each environment")
    if len(actions) != len(chosen):
        raise UsageError(f"{len(actions)} actions for {len(chosen)} environments", "one action for each environment")
    return chosen, actions


def chosen_seeds(seed: Any, chosen: list[int]) -> Sequence[int | None]:
    """The seed of each: `seed + i` for environment i, or one of a list."""
    if seed is None:
        return [None] * len(chosen)
    hint = "pass a whole number, or a list with one for each environment"
    try:
        if not hasattr(seed, "__len__"):
            return [index(seed) + id for id in chosen]
        return [None if one is None else index(one) for one in _one_for_each(seed, chosen, "seed", hint)]
    except TypeError:
        raise UsageError(f"seed is {seed!r:.80}", hint) from None


def chosen_options(options: Any, chosen: list[int]) -> Sequence[dict[str, Any] | None]:
    """The options of each: the same for all, or one of a list."""
    if options is None or isinstance(options, dict):
        return [options] * len(chosen)
    hint = "pass a dict, or a list with one for each environment"
    return _checked(_one_for_each(options, chosen, "options", hint), dict, "options", hint)


def chosen_episode_ids(episode_id: Any, chosen: list[int]) -> Sequence[str | None]:
    """The ID of each episode, for as many environments as there are IDs. No two may be the same."""
    if episode_id is None:
        return [None] * len(chosen)
    hint = "pass a list with one for each environment"
    given = [episode_id] if isinstance(episode_id, str) else _one_for_each(episode_id, chosen, "episode_id", hint)
    if len(given) != len(chosen):
        raise UsageError(f"one episode_id for {len(chosen)} environments", hint)
    known = [one for one in _checked(given, str, "episode_id", hint) if one is not None]
    if len(set(known)) != len(known):
        raise UsageError(f"an episode_id twice in {given!r:.80}", "each episode has its own")
    return given


def chosen_tasks(task: Any, chosen: list[int]) -> Sequence[Any]:
    """The task of each: the same for all by an index, an ID or a row, or one of a list."""
    if isinstance(task, str | bytes | Mapping) or not hasattr(task, "__len__") or getattr(task, "ndim", 1) == 0:
        return [task] * len(chosen)
    return _one_for_each(task, chosen, "task", "pass one task, or a list with one for each environment")


def _one_for_each(values: Any, chosen: list[int], name: str, hint: str) -> Sequence[Any]:
    if isinstance(values, str | bytes | Mapping | Set) or not hasattr(values, "__iter__"):
        raise UsageError(f"{name} is {values!r:.80}", hint)
    if len(values) != len(chosen):
        raise UsageError(f"{len(values)} values of {name} for {len(chosen)} environments", hint)
    return list(values)


def _checked(values: Sequence[Any], kind: type, name: str, hint: str) -> Sequence[Any]:
    for value in values:
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"{name} has {value!r:.80}", hint)
    return values


def ready_counts(min_ready: Any, max_ready: Any) -> tuple[int, int | None]:
    """The arguments of `recv`: at least so many rows, at most so many."""
    try:
        least, most = index(min_ready), None if max_ready is None else index(max_ready)
    except TypeError:
        least, most = -1, None
    if least < 0 or (most is not None and most < max(least, 1)):
        raise UsageError(f"min_ready={min_ready!r}, max_ready={max_ready!r}", "use 0 ≤ min_ready ≤ max_ready")
    return least, most


def seconds(value: float | None) -> float | None:
    """A time to wait; None and infinity mean no limit."""
    if value is None or value == float("inf"):
        return None
    if not isinstance(value, int | float) or isnan(value):
        raise UsageError(f"a time of {value!r}", "use seconds, or None")
    return float(value)


@contextmanager
def label_errors(id: int) -> Iterator[None]:
    """Say in a usage error which environment it is about."""
    try:
        yield
    except UsageError as error:
        hint = f"reset(ids=[{id}]), or autoreset=True" if isinstance(error, ResetNeededError) else error.hint
        hint = hint.replace("env.respond(", f"vector.respond({id}, ")
        raise type(error)(f"environment {id}: {error.message}", hint) from None

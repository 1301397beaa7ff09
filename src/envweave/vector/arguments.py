"""What a caller of a vector may name, and what is wrong with it if it cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def chosen_seeds(seed: int | Sequence[int] | None, chosen: list[int]) -> Sequence[int | None]:
    """The seed of each: `seed + i` for environment i, or one of a list."""
    if seed is None:
        return [None] * len(chosen)
    try:
        if not hasattr(seed, "__len__"):
            return [index(seed) + id for id in chosen]
        seeds = [index(one) for one in seed]  # type: ignore[union-attr]
    except TypeError:
        raise UsageError(f"seed is {seed!r}", "pass a whole number, or one for each environment") from None
    if len(seeds) != len(chosen):
        raise UsageError(f"{len(seeds)} seeds for {len(chosen)} environments", "give one seed, or one for each")
    return seeds


def seconds(value: float | None) -> float | None:
    """A time to wait; None and infinity are for ever."""
    if value is None or value == float("inf"):
        return None
    if not isinstance(value, int | float) or isnan(value):
        raise UsageError(f"a time of {value!r}", "use seconds, or None")
    return float(value)


@contextmanager
def naming(id: int) -> Iterator[None]:
    """Say in a usage error which environment it is about."""
    try:
        yield
    except UsageError as error:
        hint = f"reset(ids=[{id}]), or autoreset=True" if isinstance(error, ResetNeededError) else error.hint
        hint = hint.replace("env.respond(", f"vector.respond({id}, ")
        raise type(error)(f"environment {id}: {error.message}", hint) from None

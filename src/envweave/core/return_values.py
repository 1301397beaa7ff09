"""What the return values of `reset` and `step` mean.

Every convention keeps its owner's meaning:

    Observation, or any object or dict with `done`/`reward`     OpenEnv, envweave
    (obs, info) · (obs, reward, terminated, truncated, info)    Gymnasium, PettingZoo (five dicts)
    (obs, reward, done, info)                                   gym before 0.26; `TimeLimit.truncated` is read
    ResetResult · StepResult                                    envweave
    anything else                                               a plain observation, not scored, not done
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

from envweave.errors import BadResultError
from envweave.requests import Request
from envweave.results import ResetResult, StepResult
from envweave.types import Observation


class ResetOutcome(NamedTuple):
    """What a reset returned."""

    observation: Any
    info: dict[str, Any]
    requests: tuple[Request, ...]


class StepOutcome(NamedTuple):
    """What a step returned; `reward` and the two flags are as the author gave them."""

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: dict[str, Any]
    requests: tuple[Request, ...]


def read_reset(raw: Any) -> ResetOutcome:
    """Raise `BadResultError` for None, which is a forgotten `return`."""
    _refuse_coroutine(raw, "reset")
    if isinstance(raw, tuple) and len(raw) == 2 and isinstance(raw[1], Mapping):
        return ResetOutcome(raw[0], read_info(raw[1]), ())
    if isinstance(raw, ResetResult | StepResult):
        return ResetOutcome(raw.observation, read_info(raw.info), tuple(raw.requests))
    if raw is None:
        raise BadResultError("reset returned None", "return the first observation, or `(observation, info)`")
    return ResetOutcome(raw, _metadata(raw), ())


def read_step(raw: Any) -> StepOutcome:
    """Raise `BadResultError` for None and for tuples of a length that no convention has."""
    _refuse_coroutine(raw, "step")
    if isinstance(raw, Observation):
        done, cut = read_flag(raw.done, "done"), raw.metadata.get("truncated") is True
        return StepOutcome(raw, raw.reward, done and not cut, done and cut, raw.metadata, ())
    if isinstance(raw, StepResult):
        requests = tuple(raw.requests)
        return StepOutcome(raw.observation, raw.reward, raw.terminated, raw.truncated, read_info(raw.info), requests)
    if isinstance(raw, tuple):
        return _read_tuple(raw)
    if raw is None:
        raise BadResultError("step returned None", "return an observation, a StepResult or a Gymnasium tuple")
    info = _metadata(raw)
    done, cut = read_flag(_member(raw, "done", False), "done"), info.get("truncated") is True
    return StepOutcome(raw, _member(raw, "reward", None), done and not cut, done and cut, info, ())


def _read_tuple(raw: tuple[Any, ...]) -> StepOutcome:
    if len(raw) == 5:
        observation, reward, terminated, truncated, info = raw
        return StepOutcome(observation, reward, terminated, truncated, read_info(info), ())
    if len(raw) == 4:
        observation, reward, done, info = raw
        info = read_info(info)
        if isinstance(done, Mapping):
            return StepOutcome(observation, reward, done, dict.fromkeys(done, False), info, ())
        done, cut = read_flag(done, "done"), bool(info.get("TimeLimit.truncated", False))
        return StepOutcome(observation, reward, done and not cut, done and cut, info, ())
    raise BadResultError(
        f"step returned a tuple of {len(raw)} values",
        "return (observation, reward, terminated, truncated, info), or put a tuple observation into a StepResult",
    )


def read_reward(reward: Any) -> float | None:
    """The reward as a finite Python float, or None; numpy and torch scalars are numbers too."""
    if reward is None or (type(reward) is float and isfinite(reward)):
        return reward
    if isinstance(reward, Mapping):
        raise BadResultError("rewards are by agent, but the environment has no `agents`", "give it that attribute")
    item = getattr(reward, "item", None)
    if callable(item):
        try:
            reward = item()
        except (ValueError, RuntimeError) as error:
            raise BadResultError(f"reward {reward!r} is not one number", "return a scalar") from error
    if not hasattr(type(reward), "__float__"):
        raise BadResultError(f"reward {reward!r} is not a number", "return a float, or None for `not scored`")
    try:
        number = float(reward)
    except (OverflowError, TypeError, ValueError) as error:
        raise BadResultError(f"reward is not a finite number: {error}", "return a float") from error
    if not isfinite(number):
        raise BadResultError(f"reward is {number}", "return a finite number, or None for `not scored`")
    return number


def read_flag(flag: Any, name: str) -> bool:
    """A boolean from a bool, a numpy bool or 0/1; a string or None raises `BadResultError`."""
    if flag is True or flag is False:
        return bool(flag)
    item = getattr(flag, "item", None)
    if callable(item) and getattr(flag, "size", 1) == 1:
        flag = item()
    if isinstance(flag, bool) or (isinstance(flag, int) and flag in (0, 1)):
        return bool(flag)
    raise BadResultError(f"{name} is {flag!r}", "return True or False")


def read_info(info: Any) -> dict[str, Any]:
    """`info` as a dict; None counts as empty."""
    if isinstance(info, dict):
        return info
    if info is None or isinstance(info, Mapping):
        return dict(info or {})
    raise BadResultError(f"info is a {type(info).__name__}, not a dict", "return a dict of diagnostics as `info`")


def _refuse_coroutine(raw: Any, what: str) -> None:
    if inspect.iscoroutine(raw):
        raw.close()
        raise BadResultError(f"{what} returned a coroutine", "write `async def`, so that it is awaited")


def _member(raw: Any, name: str, default: Any) -> Any:
    value = raw.get(name, default) if isinstance(raw, Mapping) else getattr(raw, name, default)
    return default if callable(value) else value


def _metadata(raw: Any) -> dict[str, Any]:
    metadata = _member(raw, "metadata", None)
    return metadata if isinstance(metadata, dict) else {}

"""Checks of how an environment is made, begun and closed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from envweave.core.handle import EnvHandle
from envweave.errors import BadResultError
from envweave.testing.report import Problem, Problems, SkippedError, attempt, problem_of
from envweave.testing.trial import Trial

_STRANGE_OPTION = "no_such_option_of_any_environment"


def check_environment(trial: Trial) -> Problems:
    """It has `reset` and `step`."""
    error, target = trial.opening_error, trial.subject.target
    if error is None:
        return
    seen = trial.subject.single or isinstance(target, type)
    lacking = [name for name in ("reset", "step") if seen and not _has(target, name)]
    if lacking:
        name = target.__name__ if isinstance(target, type) else f"this {type(target).__name__}"
        yield Problem(f"{name} has no {' and no '.join(lacking)}", f"write the method `{lacking[0]}`")
    elif isinstance(error, BadResultError):
        yield problem_of(error, "an environment has reset and step")
    elif trial.subject.single:
        yield problem_of(error, "see that its members can be read", what="the environment")
    else:
        raise SkippedError("it could not be made: see `factory`")


def _has(target: Any, name: str) -> bool:
    method = getattr(target, name, None)
    return callable(method) and getattr(method, "__isabstractmethod__", False) is not True


def check_factory(trial: Trial) -> Problems:
    """It makes environments, and another one with each call."""
    if trial.failed("environment"):
        raise SkippedError("there is no environment to look at")
    if trial.subject.single:
        _ = trial.second
    if trial.opening_error is not None:
        yield problem_of(trial.opening_error, "see that it can be made with these arguments", what="making it")
        return
    second, error = attempt(trial.open_second)
    if error is not None:
        yield problem_of(error, "see that it can be called more than once", what="the second call of the factory")
    elif second not in trial.players:
        yield Problem("the factory gives the same environment at each call", "make a new one in each call")


def check_reset_options(trial: Trial) -> Problems:
    """An option that the environment does not have is refused and not swallowed."""
    parameters = reset_parameters(trial.first.env)
    if "options" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        raise SkippedError("its reset takes options of any name")
    _ = trial.frames
    strange: dict[str, Any] = {_STRANGE_OPTION: 1}
    _, refusal = attempt(partial(trial.first.handle.reset, **strange))
    if refusal is None:
        yield Problem(
            "reset takes an option it does not know and says nothing", "raise a UsageError for unknown options"
        )


def reset_parameters(env: Any) -> Mapping[str, inspect.Parameter]:
    """What the author's `reset` takes. Skips the check if that is not known; a handle takes everything."""
    try:
        if isinstance(env, EnvHandle):
            raise TypeError
        return inspect.signature(env.reset).parameters
    except (TypeError, ValueError, AttributeError):
        raise SkippedError("the signature of its reset cannot be read") from None


def check_close(trial: Trial) -> Problems:
    """It can be closed, and twice is harmless."""
    _ = trial.first
    for player in trial.players:
        for time in ("close", "a second close"):
            _, error = attempt(player.handle.close)
            if error is not None:
                yield problem_of(error, "close what is open, and nothing if nothing is", what=time)
                return

"""Checks of the REPL's options, with defaults from OpenEnv's variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import isfinite
from typing import Any

from envweave.errors import UsageError

_NUMBERS = {
    "max_iterations": ("REPL_MAX_ITERATIONS", 30),
    "max_output_length": ("REPL_MAX_OUTPUT_LENGTH", 8192),
    "context_preview_length": ("REPL_CONTEXT_PREVIEW_LENGTH", 500),
    "rlm_max_depth": ("REPL_RLM_MAX_DEPTH", 2),
    "rlm_max_iterations": ("REPL_RLM_MAX_ITERATIONS", 30),
    "rlm_max_children": ("REPL_RLM_MAX_CHILDREN", 64),
}
_LEAST = {"context_preview_length": 0, "rlm_max_depth": 0, "rlm_max_children": 0}
_MOST = {"rlm_max_depth": 8, "max_iterations": 10_000, "rlm_max_iterations": 10_000}


def number(name: str, given: Any, environ: Mapping[str, str] = os.environ) -> int:
    """The given value, else that of the variable, else the default. Raises `UsageError` if it is out of range."""
    variable, usual = _NUMBERS[name]
    if given is not None:
        return _checked(name, given, name)
    found = environ.get(variable, "").strip()
    return _checked(name, int(found) if found.isdecimal() else found or usual, variable)


def is_set(name: str, given: Any, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the value is given or in a variable. Then it is a bound, not only a default."""
    return given is not None or bool(environ.get(_NUMBERS[name][0], "").strip())


def within(name: str, asked: Any, bound: int) -> int:
    """The value that an episode asks for. Raises `UsageError` if it is above the bound."""
    if asked is None:
        return bound
    if _checked(name, asked, name) > bound:
        raise UsageError(f"{name} is {asked}, and the maximum here is {bound}", "make the REPL with a higher one")
    return int(asked)


def _checked(name: str, given: Any, whence: str) -> int:
    least, most = _LEAST.get(name, 1), _MOST.get(name, 1 << 62)
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        upto = f"from {least} to {most}" if name in _MOST else f"from {least} on"
        raise UsageError(f"{whence} is {given!r:.100}", f"it must be a whole number {upto}")
    return given


def text(name: str, given: Any, default: str) -> str:
    if given is not None and not isinstance(given, str):
        raise UsageError(f"{name} is {given!r:.100}", "it must be text")
    return default if given is None else given


def real(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given):
        raise UsageError(f"{name} is {given!r}", "it must be a number")
    return float(given)


def functions(**given: Any) -> None:
    """Check that these are functions: a client may have sent them as data."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise UsageError(f"{name} is {value!r:.100}", "it must be a function")

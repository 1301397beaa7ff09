"""How a REPL is set up where nobody says otherwise: OpenEnv's variables, then its numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import isfinite
from operator import index
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
DEEPEST = 8
"""REPLs below one another, whatever is asked for."""
LONGEST = 10_000
"""Iterations."""


def number(name: str, given: Any, default: int | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """A setting: what was given, else the default, else the variable's. Raises `UsageError` for what is none."""
    variable, usual = _NUMBERS[name]
    whence = name
    if given is None:
        given = default
    if given is None:
        whence, text = variable, environ.get(variable, "")
        given = int(text) if text.strip().isdecimal() else text or usual
    least = _LEAST.get(name, 1)
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise UsageError(f"{whence} is {given!r}", f"it is a whole number from {least} on")
    most = DEEPEST if name == "rlm_max_depth" else LONGEST if name.endswith("iterations") else given
    return min(given, most)


def text(given: str | None, variable: str, name: str, environ: Mapping[str, str] = os.environ) -> str:
    if given is not None and not isinstance(given, str):
        raise UsageError(f"{name} is a {type(given).__name__}", "it is text")
    return given or environ.get(variable, "")


def real(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given):
        raise UsageError(f"{name} is {given!r}", "it is a number")
    return float(given)


def seed(given: Any) -> int | None:
    try:
        return None if given is None else index(given)
    except TypeError:
        raise UsageError(f"seed is {given!r:.100}", "it is a whole number") from None


def functions(**given: Any) -> None:
    """Arguments may come from a client, as data."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise UsageError(f"{name} is {value!r:.100}", "it is a function")

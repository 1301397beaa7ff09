"""Parse code that somebody else wrote: within bounds, and without a word about what is odd in it."""

from __future__ import annotations

import ast
import warnings

LONGEST = 200_000
"""Characters of code that are parsed: a syntax tree takes a hundred times as much memory."""

_NAME = "<code that is only looked at>"

warnings.filterwarnings("ignore", module=_NAME)
_FILTER = warnings.filters[0]


class UnreadableError(Exception):
    """The code is too long or nested too deeply to be parsed at all, in words."""


def parse(code: str) -> ast.Module:
    """The syntax tree. Raises `SyntaxError` for what is not Python, and `UnreadableError`."""
    if len(code) > LONGEST:
        raise UnreadableError(f"the code has {len(code)} characters, and at most {LONGEST} are read")
    _keep_quiet()
    try:
        return ast.parse(code, _NAME)
    except (RecursionError, MemoryError) as error:
        raise UnreadableError("the code is nested too deeply to be read") from error
    except ValueError as error:  # null bytes, half characters
        raise SyntaxError(str(error)) from error


def parsed(code: str) -> ast.Module | None:
    """The syntax tree, or None if there is none to be had, for whatever reason."""
    try:
        return parse(code)
    except (SyntaxError, UnreadableError):
        return None


def _keep_quiet() -> None:
    """See that our filter comes first, before one that makes errors of warnings.

    It is for a file of this name alone, so nobody else's warnings change. `catch_warnings` would take the filters of
    the whole process away and put old ones back, also while another thread changes them.
    """
    if warnings.filters[:1] != [_FILTER]:
        warnings.filterwarnings("ignore", module=_NAME)

"""Parse untrusted code: within limits, and without warnings about its style."""

from __future__ import annotations

import ast
import re
import warnings

LONGEST = 200_000
"""Characters of code that are parsed: a syntax tree takes a hundred times as much memory."""

_MOST_PARTS = 1_000
"""Parts of a dotted name: Python's parser takes quadratic time for `import a.a.a…`."""
_DOTTED = re.compile(r"\w++(?:[\s\\]*+\.[\s\\]*+\w++)*+")

_NAME = "<code that is only looked at>"

warnings.filterwarnings("ignore", module=_NAME)
_FILTER = warnings.filters[0]


class UnreadableError(Exception):
    """The code is too long or nested too deeply to be parsed; the message says which."""


def parse(code: str) -> ast.Module:
    """The syntax tree. Raises `SyntaxError` for what is not Python, and `UnreadableError`."""
    if len(code) > LONGEST:
        raise UnreadableError(f"the code has {len(code)} characters, and at most {LONGEST} are read")
    if code.count(".") > _MOST_PARTS and any(name[0].count(".") > _MOST_PARTS for name in _DOTTED.finditer(code)):
        raise UnreadableError(f"the code has a name of more than {_MOST_PARTS} parts")
    _keep_quiet()
    try:
        return ast.parse(code, _NAME)
    except (RecursionError, MemoryError) as error:
        raise UnreadableError("the code is nested too deeply to be read") from error
    except ValueError as error:  # null bytes, half characters
        raise SyntaxError(str(error)) from error


def parsed(code: str) -> ast.Module | None:
    """The syntax tree, or None if the code cannot be parsed."""
    try:
        return parse(code)
    except (SyntaxError, UnreadableError):
        return None


def _keep_quiet() -> None:
    """Put our filter first, before one that turns warnings into errors.

    It applies only to files of this name, so other warnings are unaffected. `catch_warnings` is not used, because it
    replaces the filters of the whole process, also while another thread changes them.
    """
    if warnings.filters[:1] != [_FILTER]:
        warnings.filterwarnings("ignore", module=_NAME)

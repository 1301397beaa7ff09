"""Parse code that nobody has read, without a word on stderr and within bounds."""

from __future__ import annotations

import ast
import threading
import warnings

from envweave.errors import BadResultError

LONGEST = 200_000
"""Characters of code that are parsed: a syntax tree takes a hundred times as much memory."""

_QUIET = threading.Lock()  # the filters of warnings belong to the whole process


def parse(code: str) -> ast.Module | None:
    """The syntax tree, or None if the code is not Python.

    Raises `BadResultError` for code that is too long or nested too deeply to be read at all.
    """
    if len(code) > LONGEST:
        raise BadResultError(f"the code has {len(code)} characters, too many to be read", f"at most {LONGEST} are")
    try:
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a text is no business of ours
            return ast.parse(code)
    except (RecursionError, MemoryError) as error:
        raise BadResultError("the code is nested too deeply to be read") from error
    except (SyntaxError, ValueError):  # ValueError: null bytes, half characters
        return None

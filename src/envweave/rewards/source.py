"""The syntax tree of the code that an observation is about."""

from __future__ import annotations

import ast
from typing import Any

from envweave.core.parse_code import parse
from envweave.errors import BadResultError
from envweave.rewards.run import has_succeeded, read_code


def read_tree(observation: Any) -> ast.Module | None:
    """The tree of the code that was run, or None if it is not Python and so never ran.

    Raises `UnreadableError` for code that is too long or nested too deeply, and `BadResultError` if it cannot be told
    what ran: there is no code, or it ran all the same, under another Python than this one.
    """
    try:
        return parse(read_code(observation))
    except SyntaxError as error:
        if has_succeeded(observation):
            raise BadResultError(
                f"the code ran, but is not Python to the one here: {error.msg}", "score with the Python that runs it"
            ) from error
        return None

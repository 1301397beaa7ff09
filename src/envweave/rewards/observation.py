"""Read and copy an observation: a dataclass, a pydantic model, a dict or a plain object.

What an observation says about code that was run:

    metadata["last_code"]          the code
    execution_result               its result in CodeAct (the fields of the sandbox's ExecutionResult)
    result                         the same in the REPL
    stdout, stderr, exit_code      the same in the coding environment, with metadata["success"]
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from envweave.core.parse_code import parse, parsed
from envweave.errors import BadResultError


def member(thing: Any, name: str, default: Any = None) -> Any:
    """A field by name, of an object or of a dict."""
    return thing.get(name, default) if isinstance(thing, Mapping) else getattr(thing, name, default)


def metadata_of(observation: Any) -> dict[str, Any]:
    """A copy of its metadata; empty if it has none."""
    metadata = member(observation, "metadata")
    return dict(metadata) if isinstance(metadata, Mapping) else {}


def changed(observation: Any, **fields: Any) -> Any:
    """A copy with other values in these fields; the argument is not changed, and no `__init__` runs.

    Raises `BadResultError` for an observation without such a field: a number or a text cannot carry a reward.
    """
    if isinstance(observation, Mapping):
        return {**observation, **fields}
    for name in fields:
        if not hasattr(observation, name):
            kind = type(observation).__name__
            hint = "derive it from `envweave.Observation`, or return a dict"
            raise BadResultError(f"the observation, a {kind}, has no {name!r} and cannot be scored", hint)
    if callable(getattr(observation, "model_copy", None)):  # pydantic's models
        return observation.model_copy(update=fields)
    twin = copy.copy(observation)
    for name, value in fields.items():
        object.__setattr__(twin, name, value)  # also if it is frozen: the copy is not shared yet
    return twin


class Run(NamedTuple):
    """The result of code that was run."""

    success: bool
    answer: Any
    """The value of the last expression, or the last line that was printed; None if there is neither."""


def read_code(observation: Any) -> str:
    """The code that was run. Raises `BadResultError` if there is none: code that is not known is not scored."""
    code = metadata_of(observation).get("last_code")
    if not isinstance(code, str):
        raise BadResultError("the observation has no code to score", "the environment puts it in metadata['last_code']")
    return code


def read_run(observation: Any) -> Run:
    """The result of the run. Raises `BadResultError` if nothing was run: no result is not a wrong result."""
    metadata = metadata_of(observation)
    result = member(observation, "execution_result")
    if result is None:  # a `result` may be anything, elsewhere
        inner = member(observation, "result")
        result = observation if member(inner, "stdout") is None else inner
    stdout, exit_code = member(result, "stdout"), member(result, "exit_code")
    success = member(result, "success", metadata.get("success"))
    if not isinstance(success, bool):
        success = exit_code == 0 if isinstance(exit_code, int) else None
    if success is None or (stdout is not None and not isinstance(stdout, str)):
        raise BadResultError(
            "the observation has no result of a run",
            "the environment puts it in `execution_result`, or in `stdout` and `exit_code`",
        )
    value, output = member(result, "return_value"), (stdout or "").rstrip()
    if _ends_with_write(metadata.get("last_code")):  # its value is a number of characters, and not the answer
        if value is None and _last_line(output).isdecimal():  # the coding environment prints it
            output = output.rpartition("\n")[0].rstrip()
        value = None if type(value) is int else value
    return Run(success, value if value is not None else _last_line(output) or None)


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2].strip()


def _ends_with_write(code: Any) -> bool:
    """Whether the last expression is a call such as `sys.stdout.write(…)`."""
    tree = parsed(code) if isinstance(code, str) and ".write(" in code else None
    match tree.body[-1:] if tree is not None else []:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(attr="write")))]:
            return True
    return False


def read_tree(observation: Any) -> ast.Module | None:
    """The syntax tree of the code that was run, or None if it is not Python and so did not run.

    Raises `UnreadableError` for code that is too long or nested too deeply, and `BadResultError` if there is no code,
    or if it ran under another version of Python than this one.
    """
    try:
        return parse(read_code(observation))
    except SyntaxError as error:
        try:
            ran = read_run(observation).success
        except BadResultError:
            ran = False
        if not ran:
            return None
        problem = f"the code ran, but is not Python to the one here: {error.msg}"
        raise BadResultError(problem, "score with the Python that runs it") from error

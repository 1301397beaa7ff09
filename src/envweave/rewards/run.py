"""What an observation says about code that was run: from an environment that runs code, or from the wire.

metadata["last_code"]                        the code
execution_result                             what came of it, in CodeAct (the fields of the sandbox's ExecutionResult)
result                                       the same in the REPL
stdout, stderr, exit_code                    the same, beside each other, in the coding environment
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envweave.errors import BadResultError
from envweave.rewards.observation import member, metadata_of


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a run."""

    success: bool
    value: Any
    """Of the last expression; None if there was none."""
    stdout: str


def read_code(observation: Any) -> str:
    """The code that was run. Raises `BadResultError` if there is none: what nobody has seen is not scored."""
    code = metadata_of(observation).get("last_code")
    if not isinstance(code, str):
        raise BadResultError("the observation has no code to score", "the environment puts it in metadata['last_code']")
    return code


def has_succeeded(observation: Any) -> bool:
    """True if something was run, and without failing."""
    try:
        return read_run(observation).success
    except BadResultError:
        return False


def read_run(observation: Any) -> Run:
    """What came of it. Raises `BadResultError` if nothing was run: no result is not a wrong result."""
    result = member(observation, "execution_result")
    if result is None:  # a `result` may be anything, elsewhere
        inner = member(observation, "result")
        result = observation if member(inner, "stdout") is None else inner
    stdout, exit_code, success = (member(result, name) for name in ("stdout", "exit_code", "success"))
    if not isinstance(success, bool):
        success = exit_code == 0 if isinstance(exit_code, int) else None
    if success is None or (stdout is not None and not isinstance(stdout, str)):
        raise BadResultError(
            "the observation has no result of a run",
            "the environment puts it in `execution_result`, or in `stdout` and `exit_code`",
        )
    return Run(success, member(result, "return_value"), stdout or "")

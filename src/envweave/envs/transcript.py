"""The output of a run as an interactive Python shows it."""

from __future__ import annotations

from envweave.sandbox import ExecutionResult

_AFTERWARDS = {
    "restarted": "the interpreter was restarted: variables are lost, files are kept",
    "rolled_back": "variables and files are as they were before this code",
    "ended": "the interpreter has ended",
}


def shown_output(result: ExecutionResult) -> str:
    """Stdout, followed by the value of the last expression."""
    if result.return_value is None:
        return result.stdout
    value = repr(result.return_value) if result.return_is_data else str(result.return_value)
    gap = "" if not result.stdout or result.stdout.endswith("\n") else "\n"
    return f"{result.stdout}{gap}{value}\n"


def shown_error(result: ExecutionResult) -> str:
    """Stderr, the traceback, and what happened to the interpreter."""
    parts = [result.stderr]
    if result.exception is not None:
        parts.append(result.exception.traceback or str(result.exception))
        if result.limit is not None:
            parts.append(str(result.exception))
    if result.state in _AFTERWARDS:
        parts.append(_AFTERWARDS[result.state])
    said = [part if part.endswith("\n") else f"{part}\n" for part in dict.fromkeys(parts) if part]
    return "".join(said)

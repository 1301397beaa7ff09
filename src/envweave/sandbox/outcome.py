"""From what happened to what is told: an `ExecutionResult`, and which limit it was."""

from __future__ import annotations

import errno
import signal
from typing import Any

from envweave.sandbox.base import ExceptionInfo, ExecutionResult, Inspection, State
from envweave.sandbox.exchange import Outcome
from envweave.sandbox.guest.code import MESSAGE, NAME, TRACEBACK
from envweave.sandbox.guest.frames import Message
from envweave.sandbox.guest.values import portray, shorten
from envweave.sandbox.limits import LimitHit, Limits

INTERRUPTED = 124
"""As `timeout(1)` has it."""

_SAID = 100
_BY_ERRNO = {
    errno.ENOSPC: "disk_bytes",
    errno.EFBIG: "file_bytes",
    errno.EMFILE: "open_files",
}


def to_result(outcome: Outcome, limits: Limits, *, hit: LimitHit | None, state: State) -> ExecutionResult:
    """The whole story. `hit` is a limit that was noticed elsewhere."""
    answer = outcome.answer
    if answer is None:
        limit = outcome.limit or hit
        exit_code = outcome.exit_code if outcome.exit_code is not None else -signal.SIGKILL
        return _result(outcome, limit, state, exit_code=exit_code, exception=_end(outcome, limit, exit_code))
    error = answer.get("error")
    limit = outcome.limit or hit or _from_error(error, limits) or _from_size(outcome, answer, limits)
    if not isinstance(error, dict):
        value, is_data = _value(answer.get("value"), limits)
        return _result(outcome, limit, state, return_value=value, return_is_data=is_data)
    exception = _exception(error)
    exit_code = _exit_code(answer.get("exit_code"))
    if outcome.interrupted and exception.type == "KeyboardInterrupt":
        exception = ExceptionInfo("TimeoutError", f"interrupted at the limit {limit}", exception.traceback)
        exit_code = INTERRUPTED
    if not exit_code:  # sys.exit(0)
        return _result(outcome, limit, state)
    return _result(outcome, limit, state, exit_code=exit_code, exception=exception)


def _result(
    outcome: Outcome,
    limit: LimitHit | None,
    state: State,
    *,
    exit_code: int = 0,
    exception: ExceptionInfo | None = None,
    **value: Any,
) -> ExecutionResult:
    return ExecutionResult(
        stdout=outcome.out.text(),
        stderr=outcome.err.text(),
        success=exception is None,
        exit_code=exit_code,
        exception=exception,
        duration=outcome.duration,
        limit=limit,
        state=state,
        **value,
    )


def _exception(error: Message) -> ExceptionInfo:
    told = (("type", NAME), ("message", MESSAGE), ("traceback", TRACEBACK))
    return ExceptionInfo(*(_bounded(str(error.get(key, "")), most) for key, most in told))


def _end(outcome: Outcome, limit: LimitHit | None, exit_code: int) -> ExceptionInfo:
    """Why there is no answer."""
    if limit is not None and limit.name == "memory_bytes":
        return ExceptionInfo("MemoryError", f"killed at the limit {limit}")
    if outcome.limit is not None:
        kind = "TimeoutError" if outcome.interrupted else "WorkerKilled"
        return ExceptionInfo(kind, f"killed at the limit {outcome.limit}: {outcome.reason}")
    if outcome.exit_code is None:
        return ExceptionInfo("WorkerKilled", outcome.reason)
    if exit_code >= 0:
        return ExceptionInfo("SystemExit", f"the process exited with {exit_code}")
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return ExceptionInfo("WorkerKilled", f"the process was ended by {name}")


def _from_error(error: Any, limits: Limits) -> LimitHit | None:
    """An exception that a wall of the kernel has caused."""
    if not isinstance(error, dict):
        return None
    kind, text = error.get("type"), str(error.get("traceback"))
    number = error.get("errno")
    name = _BY_ERRNO.get(number) if isinstance(number, int) else None
    if kind == "MemoryError":
        name = "memory_bytes"
    elif (kind == "BlockingIOError" and "fork" in text) or (
        kind == "RuntimeError" and "can't start new thread" in text
    ):
        name = "processes"
    value = getattr(limits, name) if name else None
    return LimitHit(str(name), value) if value is not None else None


def _from_size(outcome: Outcome, answer: Message, limits: Limits) -> LimitHit | None:
    if outcome.out.cut or outcome.err.cut:
        return LimitHit("output_bytes", limits.output_bytes)
    value = answer.get("value")
    if isinstance(value, dict) and value.get("cut"):
        return LimitHit("return_bytes", limits.return_bytes)
    return None


def to_inspection(outcome: Outcome, limits: Limits) -> Inspection | None:
    """What an inspection found; None if the worker did not answer it."""
    found = outcome.answer or {}
    variables, values = found.get("variables"), found.get("values")
    if not isinstance(variables, dict) or not isinstance(values, dict):
        return None
    told = {clean(name): _value(value, limits)[0] for name, value in values.items() if isinstance(value, dict)}
    error = found.get("error_of_value")
    exception = _exception(error) if isinstance(error, dict) else None
    if outcome.interrupted and exception is not None:
        exception = ExceptionInfo("TimeoutError", f"interrupted at the limit {outcome.limit}")
    return Inspection(variables=texts(variables), values=told, value=clean(found.get("value")), exception=exception)


def texts(found: dict[str, Any]) -> dict[str, str]:
    return {clean(name): clean(str(text)) for name, text in found.items()}


def _value(value: Any, limits: Limits) -> tuple[Any, bool]:
    """The value and whether it is data rather than a repr."""
    if not isinstance(value, dict):
        return None, True
    if "data" not in value:
        return _bounded(str(value.get("repr")), limits.return_bytes), False
    shown = portray(value["data"], limits.return_bytes)  # again, for what the other side says is not to be relied on
    return clean(shown["data"] if "data" in shown else shown["repr"]), "data" in shown


def _bounded(text: str, most: int) -> str:
    """What our workers have cut to size stays as it is; it is longer by what they say of the cut."""
    return str(clean(text if len(text) <= most + _SAID else shorten(text, most)))


def clean(value: Any) -> Any:
    """The same without lone surrogates, which no encoder takes."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def read_value(outcome: Outcome, limits: Limits) -> Any:
    """The value of an answer, for `get`."""
    return _value((outcome.answer or {}).get("value"), limits)[0]


def _exit_code(value: Any) -> int:
    return value & 0xFF if type(value) is int else 1

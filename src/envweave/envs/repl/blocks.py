"""Run one block of code in the REPL, and read its answer: one round trip to the worker.

An answer is text. Only the sandbox can convert a value of the code to text. `FINAL` sends it as the argument of a call,
which code in the sandbox may also make itself. Other ways to answer are read by `_read_answer` of `inside.py` after the
run, and come back with its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envweave.envs.code import shown_error, shown_output
from envweave.envs.interpreter import Interpreter
from envweave.envs.repl.answers import NOT_TAKEN, printed_answer, printed_variables, was_missed
from envweave.envs.repl.types import CodeBlockResult
from envweave.errors import SandboxError
from envweave.sandbox import ExecutionResult, Inspection, LimitHit

MOST_VARIABLES = 1000
"""In one observation."""

_SHORT_REPR = 500
_LOST = "a __repr__ or __str__ has ended the interpreter"


class FinalAnswer:
    """Receives the argument of `FINAL`, for one environment."""

    def __init__(self) -> None:
        self.given: str | None = None

    def give(self, answer: str) -> None:
        """Keeps the first answer of a run only, because there may be many large ones."""
        if not isinstance(answer, str):
            raise TypeError(f"an answer is text, not {type(answer).__name__}")
        if self.given is None:
            self.given = answer.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class BlockOutcome:
    """What a block did."""

    result: CodeBlockResult
    answer: str | None
    """The final answer that it gave."""
    left: str | None
    """After the last block, the content of `answer`, if the block gave no final answer."""
    limit: LimitHit | None = None
    """The limit that it exceeded."""


def run_block(
    python: Interpreter, final: FinalAnswer, code: str, *, last: bool, longest: int, timeout: float | None = None
) -> BlockOutcome:
    """Run code. Stdout and stderr are cut to `longest` characters each."""
    final.given = None
    result, found = python.run_and_inspect(
        code,
        expression=f"_read_answer({printed_variables(code)!r}, {last})",
        longest=_SHORT_REPR,
        most=MOST_VARIABLES,
        timeout=timeout,
    )
    read = found.value if found is not None and isinstance(found.value, dict) else {}
    answer = _answer(final, code, result, read) if result.success else None
    notes = [_LOST] if result.success and result.state != "kept" else []
    if answer is None and result.success:
        if found is not None and found.exception is not None:
            notes.append(f"the answer cannot be read: {found.exception}")
        if was_missed(code, result.stdout):
            notes.append(NOT_TAKEN)
    left = _text(read.get("content")) if last and answer is None else None
    block = _block_result(result, _variables(python, found), notes, longest)
    return BlockOutcome(block, answer, left or None, result.limit)


def _answer(final: FinalAnswer, code: str, result: ExecutionResult, read: dict[str, Any]) -> str | None:
    """The answer that successful code has given. `read` is what `_read_answer` returned."""
    if final.given is not None:
        return final.given
    variables = read.get("variables")
    printed = printed_answer(code, result.stdout, variables.get if isinstance(variables, dict) else {}.get)
    if printed is not None or not read.get("ready"):
        return _text(printed)
    return _text(read.get("content"))


def _text(value: Any) -> str | None:
    """Code in the sandbox may return anything."""
    return value if isinstance(value, str) else None


def _variables(python: Interpreter, found: Inspection | None) -> dict[str, str]:
    if found is not None:
        return found.variables
    try:  # of an interpreter that has been started anew
        return python.describe(_SHORT_REPR, MOST_VARIABLES)
    except SandboxError:  # the session has ended
        return {}


def _block_result(
    result: ExecutionResult, variables: dict[str, str], notes: list[str], longest: int
) -> CodeBlockResult:
    return CodeBlockResult(
        stdout=_cut(shown_output(result), longest),
        stderr=_end_of(shown_error(result), longest) + "".join(f"{note}\n" for note in notes),
        locals_snapshot=variables,
        execution_time=result.duration,
        success=result.success,
        exception=None if result.exception is None else _cut(str(result.exception), longest),
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}\n… [cut: it has {len(text)} characters]\n"


def _end_of(text: str, longest: int) -> str:
    """Of a traceback, the last line matters most."""
    return text if len(text) <= longest else f"… [cut: it has {len(text)} characters]\n{text[-longest:]}"

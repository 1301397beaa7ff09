"""Run one block of code in the REPL, and read its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from envweave.envs.interpreter import Interpreter
from envweave.envs.repl.answers import NOT_TAKEN, was_missed
from envweave.envs.repl.submission import Submission
from envweave.envs.repl.types import CodeBlockResult
from envweave.envs.transcript import shown_error, shown_output
from envweave.errors import SandboxError
from envweave.sandbox import ExecutionResult

MOST_VARIABLES = 1000
"""In one observation."""

_SHORT_REPR = 500
_LOST = "a __repr__ or __str__ has ended the interpreter"


@dataclass(frozen=True)
class BlockOutcome:
    """What a block did."""

    result: CodeBlockResult
    answer: str | None
    """The final answer that it gave."""
    left: str | None
    """After the last block, the content of `answer`, if the block gave no final answer."""


def run_block(python: Interpreter, submission: Submission, code: str, *, last: bool, longest: int) -> BlockOutcome:
    """Run code. Stdout and stderr are cut to `longest` characters each."""
    submission.begin()
    result, found = python.run_and_inspect(code, names=("answer",), longest=_SHORT_REPR, most=MOST_VARIABLES)
    births = python.session.births
    in_answer = None if found is None else found.values.get("answer")
    answer = submission.found(python, code, result, in_answer) if result.success else None
    left = submission.content(python, in_answer, "content") if last and answer is None else None
    if python.session.births != births:  # by a `__str__` that the submission called
        result, found = replace(result, state="restarted"), None
    variables = _variables(python) if found is None else found.variables
    notes = [_LOST] if result.success and result.state != "kept" else []
    if submission.trouble:
        notes.append(f"the answer cannot be read: {submission.trouble}")
    if answer is None and result.success and was_missed(code, result.stdout):
        notes.append(NOT_TAKEN)
    return BlockOutcome(_block_result(result, variables, notes, longest), answer, left)


def _variables(python: Interpreter) -> dict[str, str]:
    """The variables of an interpreter that has been started anew."""
    try:
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

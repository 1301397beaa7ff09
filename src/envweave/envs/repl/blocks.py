"""One block of code: run it, and find out what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice

from envweave.envs.interpreter import Interpreter
from envweave.envs.repl.answers import NOT_TAKEN, was_missed
from envweave.envs.repl.submission import Submission
from envweave.envs.repl.types import CodeBlockResult
from envweave.envs.transcript import shown_error, shown_output
from envweave.errors import SandboxError
from envweave.sandbox import ExecutionResult

MOST_VARIABLES = 1000
"""That an observation tells of."""

_SHORT_REPR = 500
_LOST = "a __repr__ or __str__ has ended the interpreter, which was started anew: variables are lost, files are kept"


@dataclass(frozen=True)
class Ran:
    """What came of a block."""

    result: CodeBlockResult
    answer: str | None
    """The final answer that it gave."""
    left: str | None
    """What stands in `answer` after the last one, if that gave none."""


def run_block(python: Interpreter, submission: Submission, code: str, *, last: bool, longest: int) -> Ran:
    """Stdout and stderr have `longest` characters each. Whatever runs code of the agent once more may end it."""
    submission.begin()
    result = python.run(code)
    births = python.session.births
    answer = submission.found(python, code, result) if result.success else None
    left = submission.left(python) if last and answer is None else None
    variables = _variables(python)
    notes = [_LOST] if python.session.births != births else []
    if submission.trouble:
        notes.append(f"the answer cannot be read: {submission.trouble}")
    if answer is None and result.success and was_missed(code, result.stdout):
        notes.append(NOT_TAKEN)
    return Ran(_told(result, variables, notes, longest), answer, left)


def _variables(python: Interpreter) -> dict[str, str]:
    """By name, each as a short `repr`; as its type, if one of them does not come to an end."""
    for look in (partial(python.describe, _SHORT_REPR, MOST_VARIABLES), python.variables):
        try:
            return dict(islice(look().items(), MOST_VARIABLES))
        except SandboxError:
            continue
    return {}


def _told(result: ExecutionResult, variables: dict[str, str], notes: list[str], longest: int) -> CodeBlockResult:
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

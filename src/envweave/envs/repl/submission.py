"""How an answer comes out of the sandbox: code calls `FINAL`, prints it, or makes `answer` ready.

An answer is text, and only the other side can write a value of its own as text; it comes here as the argument of a
call, in whatever form somebody in there chooses.
"""

from __future__ import annotations

from envweave.envs.interpreter import Interpreter
from envweave.envs.repl.answers import printed_answer
from envweave.errors import SandboxError, UsageError
from envweave.sandbox import ExecutionResult


class Submission:
    """Of one environment."""

    def __init__(self) -> None:
        self._first: str | None = None
        self.trouble = ""
        """Why a value that is the answer cannot be written as text."""

    def give(self, answer: str) -> None:
        """What `FINAL` calls. The first answer of a run is kept, and no other: there may be many, and large ones."""
        if not isinstance(answer, str):
            raise TypeError(f"an answer is text, not {type(answer).__name__}")
        if self._first is None:
            self._first = answer.encode("utf-8", "backslashreplace").decode()

    def begin(self) -> None:
        """Before a run."""
        self._first, self.trouble = None, ""

    def found(self, python: Interpreter, code: str, result: ExecutionResult) -> str | None:
        """The answer that successful code has given."""
        if self._first is not None:
            return self._first
        printed = printed_answer(code, result.stdout, lambda name: self._asked(python, "variable", name))
        return printed if printed is not None else self._in_dict(python, "ready")

    def left(self, python: Interpreter) -> str | None:
        """What stands in `answer`, ready or not."""
        return self._in_dict(python, "content")

    def _in_dict(self, python: Interpreter, need: str) -> str | None:
        try:
            answer = python.get("answer")
        except (SandboxError, UsageError):  # there is none, or its `__repr__` has ended the interpreter
            return None
        if isinstance(answer, dict):
            if not answer.get(need):
                return None
            if isinstance(answer.get("content"), str):
                return str(answer["content"])
        elif not (isinstance(answer, str) and need in answer):  # what is no data, or too much of it, comes as `repr`
            return None
        return self._asked(python, "answer", need)

    def _asked(self, python: Interpreter, what: str, name: str) -> str | None:
        self.begin()
        try:
            result = python.run(f"_give_{what}({name!r})")
        except SandboxError as error:  # its `__str__` has ended the session
            self.trouble = error.message
            return None
        self.trouble = "" if result.success else str(result.exception)
        return self._first if result.success else None

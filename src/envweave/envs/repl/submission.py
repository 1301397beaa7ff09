"""How an answer leaves the sandbox: code calls `FINAL`, prints it, or sets `answer["ready"]`.

An answer is text. Only the sandbox can convert a value of the code to text, so it is sent as the argument of a call,
which code in the sandbox may also make itself.
"""

from __future__ import annotations

from typing import Any

from envweave.envs.interpreter import Interpreter
from envweave.envs.repl.answers import printed_answer
from envweave.errors import SandboxError
from envweave.sandbox import ExecutionResult


class Submission:
    """The answer to one environment."""

    def __init__(self) -> None:
        self._first: str | None = None
        self.trouble = ""
        """Why the value of an answer cannot be converted to text."""

    def give(self, answer: str) -> None:
        """Called by `FINAL`. Keeps the first answer of a run only, because there may be many large ones."""
        if not isinstance(answer, str):
            raise TypeError(f"an answer is text, not {type(answer).__name__}")
        if self._first is None:
            self._first = answer.encode("utf-8", "backslashreplace").decode()

    def begin(self) -> None:
        """Forget the last run."""
        self._first, self.trouble = None, ""

    def found(self, python: Interpreter, code: str, result: ExecutionResult, in_answer: Any) -> str | None:
        """The answer that successful code has given. `in_answer` is the variable `answer` after it."""
        if self._first is not None:
            return self._first
        printed = printed_answer(code, result.stdout, lambda name: self._asked(python, "variable", name))
        return printed if printed is not None else self.content(python, in_answer, "ready")

    def content(self, python: Interpreter, in_answer: Any, need: str) -> str | None:
        """The content of `answer` as text, if the key `need` is set in it."""
        if isinstance(in_answer, dict):
            if not in_answer.get(need):
                return None
            content = in_answer.get("content", "")
            if content is None or isinstance(content, str | int | float):
                return str(content)
        elif not (isinstance(in_answer, str) and need in in_answer):  # a `repr`: it is not data, or too large
            return None
        return self._asked(python, "answer", need)

    def _asked(self, python: Interpreter, what: str, name: str) -> str | None:
        """Have the sandbox convert a value to text and send it."""
        self.begin()
        try:
            result = python.run(f"_give_{what}({name!r})")
        except SandboxError as error:  # the session has ended
            self.trouble = error.message
            return None
        self.trouble = "" if result.success else str(result.exception)
        return self._first if result.success else None

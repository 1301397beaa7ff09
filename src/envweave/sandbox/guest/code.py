"""Code in a namespace that lasts: statements, the value of a last expression, `await` at the top level, tracebacks."""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import sys
import traceback
import types
from itertools import islice
from typing import Any

from envweave.sandbox.guest.values import shorten, type_name

_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
NAME, MESSAGE, TRACEBACK = 200, 4_000, 16_000
"""Characters, at most, of an exception's type, message and traceback."""


TOOLS = "tools"
"""The module that functions of the host's say they are from."""


class Namespace:
    """The module `__main__` of a session."""

    def __init__(self) -> None:
        self.module = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        sys.modules["__main__"] = self.module

    def run(self, code: str) -> Any:
        """Run the code and give the value of its last expression. Raises what the code raises."""
        self._count += 1
        name = f"<step {self._count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        tree = compile(code, name, "exec", _FLAGS | ast.PyCF_ONLY_AST, dont_inherit=True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        parts = [compile(tree, name, "exec", _FLAGS, dont_inherit=True)] if tree.body else []
        if last is not None:
            parts.append(compile(ast.Expression(last.value), name, "eval", _FLAGS, dont_inherit=True))
        value = None
        if any(part.co_flags & inspect.CO_COROUTINE for part in parts):
            value = self._await(self._evaluate(parts))
        else:
            for part in parts:
                value = eval(part, self.names)  # noqa: S307  (this is what the process is for)
        if value is not None:
            self.names["_"] = value
        return value

    async def _evaluate(self, parts: list[types.CodeType]) -> Any:
        """All of it on the loop, where one part awaits something."""
        value = None
        for part in parts:
            value = eval(part, self.names)  # noqa: S307
            if part.co_flags & inspect.CO_COROUTINE:
                value = await value
        return value

    def _await(self, work: Any) -> Any:
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(work)
        try:
            return self._loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # interrupted: what was being awaited ends, other tasks may go on with the next await
                task.cancel()
                self._loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            raise

    def settle(self) -> str | None:
        """Give up the event loop, for it cannot be in two processes; or say why that cannot be done."""
        if self._loop is None:
            return None
        if any(not task.done() for task in asyncio.all_tasks(self._loop)):
            return "asyncio tasks that have not ended"
        self._loop.close()
        self._loop = None
        asyncio.set_event_loop(None)
        return None

    def define(self, code: str) -> None:
        """Run code of the host's own: what it defines is at hand like a tool, and no line of it in a traceback."""
        self.names["__name__"] = TOOLS
        try:
            exec(compile(code, "<envweave definitions>", "exec", dont_inherit=True), self.names)  # noqa: S102
        finally:
            self.names["__name__"] = "__main__"

    def variables(self, most: int | None = None) -> dict[str, Any]:
        """What the code has defined, by name, the first ones of it; modules and tools are not counted."""
        found = (pair for pair in list(self.names.items()) if type(pair[0]) is str and _counts(*pair))
        return dict(islice(found, most))


def _counts(name: str, value: Any) -> bool:
    """Is it a variable? Nothing of the value's own is asked, not even its `__class__`."""
    kind = type(value)
    if name.startswith("_") or issubclass(kind, types.ModuleType):
        return False
    return kind is not types.FunctionType or type(value.__module__) is not str or value.__module__ != TOOLS


def account_for(error: BaseException) -> dict[str, Any]:
    """What is told of an exception: only the code's own lines, whatever its `__str__` does."""
    number = None
    try:
        said = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
        _hide_ourselves(said)
        text = "".join(said.format())
        message = str(said)
        if isinstance(error, OSError) and type(error.errno) is int:
            number = error.errno
    except BaseException:  # a hostile exception class
        text, message = "", ""
    return {
        "type": shorten(type_name(error), NAME),
        "message": shorten(message, MESSAGE),
        "traceback": shorten(text, TRACEBACK),
        "errno": number,
    }


def _hide_ourselves(said: traceback.TracebackException) -> None:
    """Take our own lines, and those before the code's first, out of a traceback and of all that it goes back to."""
    todo: list[traceback.TracebackException | None] = [said]
    while todo:
        each = todo.pop()
        if each is not None:
            lines = [line for line in each.stack if not line.filename.startswith("<envweave ")]
            first = next((place for place, line in enumerate(lines) if line.filename.startswith("<step ")), 0)
            each.stack = traceback.StackSummary.from_list(lines[first:])
            todo += [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or ())]


def exit_code_of(error: BaseException | None) -> int:
    """As a shell would have it."""
    if error is None:
        return 0
    if isinstance(error, KeyboardInterrupt):
        return 130
    if not isinstance(error, SystemExit):
        return 1
    code = error.code
    return 0 if code is None else code & 0xFF if isinstance(code, int) else 1

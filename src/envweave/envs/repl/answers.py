"""How a final answer is recognised in what code has printed.

`FINAL(x)` that is called is no guess: the call itself is heard. What is printed is an answer only if the code meant it:
a line that is `FINAL(…)` or `FINAL_VAR(name)` from its beginning to its end, printed by code that has such a text in
one of its own strings, and that does not stand in the context. A context that is printed does not end the episode, and
neither does what a language model has said.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

_LINE = re.compile(r"[ \t]*(FINAL|FINAL_VAR)\((.*)\)[ \t]*", re.DOTALL)
_NAME = re.compile(r"""["']?(\w+)["']?""")
_ASKING = {"llm_query", "llm_query_batched", "llm_batch", "rlm_query", "rlm_query_batched"}
_LONGEST = 200
"""Lines of one answer."""
_MARKS = ("FINAL(", "FINAL_VAR(")


def printed_answer(code: str, stdout: str, context: str, value_of: Callable[[str], Any]) -> str | None:
    """The answer that successful code has printed, or None; `value_of` gives a variable, or None."""
    if not any(mark in stdout for mark in _MARKS) or not means_it(code):
        return None
    for text in _candidates(stdout):
        found = _LINE.fullmatch(text)
        if found is None or text.strip() in context:
            continue
        if found[1] == "FINAL":
            return found[2].strip()
        name = _NAME.fullmatch(found[2].strip())
        value = value_of(name[1]) if name is not None else None
        if value is not None:
            return as_text(value)
    return None


def means_it(code: str) -> bool:
    """Does one of the code's own strings say FINAL, other than in a question to a language model?"""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it has run, so it is not that, but for `await`
        return any(mark in code for mark in _MARKS)
    return any(
        any(mark in node.value for mark in _MARKS)
        for node in _outside_of_questions(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _outside_of_questions(tree: ast.AST) -> Iterator[ast.AST]:
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ASKING:
            continue
        yield node
        todo.extend(ast.iter_child_nodes(node))


def _candidates(stdout: str) -> Iterator[str]:
    """Lines that begin as an answer does, each up to where its bracket closes at the end of a line."""
    lines = stdout.splitlines()
    for first, line in enumerate(lines):
        if not line.lstrip(" \t").startswith(_MARKS):
            continue
        depth, taken = 0, []
        for more in lines[first : first + _LONGEST]:
            taken.append(more)
            depth += more.count("(") - more.count(")")
            if depth <= 0:
                break
        yield "\n".join(taken) if depth == 0 else line


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)

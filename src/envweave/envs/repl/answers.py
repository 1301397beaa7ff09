"""Final answers that code prints instead of calling `FINAL(x)`.

A printed `FINAL(…)` or `FINAL_VAR(name)` is an answer if it is alone on its lines and the code has a `print` whose
argument is, or begins with, a string that begins with that text. So a text that the code merely prints, from the
context or from a language model, does not end the episode. Of several printed answers, the first counts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from envweave.core.parse_code import parsed

NOT_TAKEN = "a printed FINAL(…) was not taken for the answer: it may be a quotation. Call FINAL(value) itself."

_BEGINS = re.compile(r"^[ \t]*FINAL(?:_VAR)?\(", re.MULTILINE)
_WHOLE = re.compile(r"[ \t]*(FINAL|FINAL_VAR)\((.*)\)\s*", re.DOTALL)
_NAME = re.compile(r"""["']?(\w+)["']?""")
_PRINTED_NAME = re.compile(r"""FINAL_VAR\(\s*\\?["']?(\w+)""")
_CUT = re.compile(r"^… \[\d+ bytes cut\] …$", re.MULTILINE)
_MAX_ANSWERS = 20
"""Per output: lines on which an answer may begin."""
_MAX_LINES = 10_000
"""Per answer."""


def printed_answer(code: str, stdout: str, text_of: Callable[[str], str | None]) -> str | None:
    """The answer that successful code has printed, or None. `text_of` returns a variable as text, or None."""
    if not _BEGINS.search(stdout) or not _prints_final(code):
        return None
    for text in dict.fromkeys(_candidates(stdout)):
        found = None if _CUT.search(text) else read_final(text)
        if found is not None:
            kind, value = found
            answer = value if kind == "FINAL" else text_of(value)
            if answer is not None:
                return answer
    return None


def printed_variables(code: str) -> list[str]:
    """The names in `FINAL_VAR(name)` that code may print, so that their values can be read with its result."""
    return list(dict.fromkeys(_PRINTED_NAME.findall(code)))[:_MAX_ANSWERS] if _prints_final(code) else []


def was_missed(code: str, stdout: str) -> bool:
    """Whether code that gave no answer, but mentions FINAL, printed something that looks like one."""
    return "FINAL" in code and _BEGINS.search(stdout) is not None


def final_in(text: str) -> tuple[str, str] | None:
    """The first `FINAL(…)` or `FINAL_VAR(…)` alone on its lines: its name and its argument."""
    candidates = _candidates(text.replace("\r\n", "\n"))
    return next((found for each in candidates if (found := read_final(each)) is not None), None)


def read_final(text: str) -> tuple[str, str] | None:
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    inner = found[2].strip()
    if found[1] == "FINAL":
        return "FINAL", inner
    name = _NAME.fullmatch(inner)
    return ("FINAL_VAR", name[1]) if name is not None else None


def _prints_final(code: str) -> bool:
    """Whether the code has a `print` with a literal answer. Code that does not parse here is searched as text."""
    if "FINAL" not in code:
        return False
    tree = parsed(code)
    if tree is None:
        return "FINAL(" in code or "FINAL_VAR(" in code
    prints = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_print(node.func))
    return any(_BEGINS.search(_first_text(argument)) for node in prints for argument in node.args)


def _is_print(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id == "print"


def _first_text(node: ast.expr) -> str:
    """The literal text at the beginning of `"a"`, `f"a{x}"`, `"a" + x`, `"a%s" % x` and `"a{}".format(x)`."""
    while True:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=[first, *_]):
                node = first
            case ast.BinOp(left=left):
                node = left
            case ast.Call(func=ast.Attribute(value=value)):
                node = value
            case _:
                return ""


def _candidates(text: str) -> Iterator[str]:
    """From each line on which an answer may begin, the lines up to the closing bracket."""
    lines = text.split("\n")
    for first in [place for place, line in enumerate(lines) if _BEGINS.match(line)][:_MAX_ANSWERS]:
        depth, taken = 0, []
        for more in lines[first : first + _MAX_LINES]:
            taken.append(more)
            depth += more.count("(") - more.count(")")
            if depth <= 0:
                break
        yield "\n".join(taken) if depth == 0 else lines[first]

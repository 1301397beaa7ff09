"""How a final answer is recognised in what code has printed.

`FINAL(x)` that is called is no guess: the call itself is heard. What is printed is an answer only if the code meant it:
lines that are `FINAL(…)` or `FINAL_VAR(name)` from their beginning to their end, printed by code that has a string with
a line that begins so, and that are no quotation, neither of the context nor of what a language model has said, unless
the code prints just this string. Of several, the first counts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from envweave.core.parse_code import parsed

NOT_TAKEN = "a printed FINAL(…) was not taken for the answer: it may be a quotation. Call FINAL(value) itself."

_BEGINS = re.compile(r"^[ \t]*FINAL(?:_VAR)?\(", re.MULTILINE)
_WHOLE = re.compile(r"[ \t]*(FINAL|FINAL_VAR)\((.*)\)\s*", re.DOTALL)
_NAME = re.compile(r"""["']?(\w+)["']?""")
_CUT = re.compile(r"^… \[\d+ bytes cut\] …$", re.MULTILINE)
_MOST = 20
"""Places where an answer may begin: each is looked for in the whole context."""
_LONGEST = 10_000
"""Lines of one answer."""
_WORDS = 50
"""So many words in a row make a quotation."""


def printed_answer(
    code: str, said: str, quotable: Callable[[], Iterable[str]], text_of: Callable[[str], str | None]
) -> str | None:
    """The answer in what successful code has said, or None.

    `quotable` are texts that the code may have printed; `text_of` gives a variable as text, or None.
    """
    texts = list(dict.fromkeys(_candidates(said))) if _BEGINS.search(said) and "FINAL" in code else []
    tree = parsed(code) if texts else None
    if not texts or not _means_it(code, tree):
        return None
    literal = {text.strip() for string in _printed(tree) for text in _candidates(string)}
    for text in texts:
        found = None if _CUT.search(text) else read_final(text)
        if found is None or (text.strip() not in literal and any(_stands_in(each, text) for each in quotable())):
            continue
        kind, value = found
        answer = value if kind == "FINAL" else text_of(value)
        if answer is not None:
            return answer
    return None


def was_missed(code: str, said: str) -> bool:
    """Did code that speaks of FINAL print what looks like an answer? Asked if there is none."""
    return "FINAL" in code and _BEGINS.search(said) is not None


def final_in(text: str) -> tuple[str, str] | None:
    """The first `FINAL(…)` or `FINAL_VAR(…)` that has its lines to itself: which of both, and what stands in it."""
    return next((found for each in _candidates(text) if (found := read_final(each)) is not None), None)


def read_final(text: str) -> tuple[str, str] | None:
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    inner = found[2].strip()
    if found[1] == "FINAL":
        return "FINAL", inner
    name = _NAME.fullmatch(inner)
    return ("FINAL_VAR", name[1]) if name is not None else None


def _means_it(code: str, tree: ast.AST | None) -> bool:
    """Does a string of the code begin an answer? Code that cannot be read here means what stands anywhere in it."""
    if tree is None:
        return "FINAL(" in code or "FINAL_VAR(" in code
    return any(_BEGINS.search(string) for node in ast.walk(tree) for string in _string(node))


def _printed(tree: ast.AST | None) -> Iterator[str]:
    """The strings that code prints as they stand."""
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Call(func=ast.Name(id="print") | ast.Attribute(attr="write"), args=given):
                yield from (string for each in given for string in _string(each))


def _string(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _candidates(said: str) -> Iterator[str]:
    """Lines that begin as an answer does, each up to where its bracket closes at the end of a line."""
    lines = said.split("\n")
    for first in [place for place, line in enumerate(lines) if _BEGINS.match(line)][:_MOST]:
        depth, taken = 0, []
        for more in lines[first : first + _LONGEST]:
            taken.append(more)
            depth += more.count("(") - more.count(")")
            if depth <= 0:
                break
        yield "\n".join(taken) if depth == 0 else lines[first]


def _stands_in(quotable: str, text: str) -> bool:
    """Whatever the space between the words."""
    return re.search(r"\s+".join(map(re.escape, text.split()[:_WORDS])), quotable) is not None

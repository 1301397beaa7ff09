"""How a final answer is recognised in what code has printed.

`FINAL(x)` that is called is no guess: the call itself is heard. What is printed is an answer only if the code meant it
(see `intent`): lines that are `FINAL(…)` or `FINAL_VAR(name)` from their beginning to their end, and that do not stand
in the context, unless the code prints just this string. A context that is printed does not end the episode, and neither
does what a language model has said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envweave.envs.repl.intent import BEGINS, intent_of

NOT_TAKEN = "a printed FINAL(…) was not taken for the answer: it may be a quotation. Call FINAL(value) itself."

_WHOLE = re.compile(r"[ \t]*(FINAL|FINAL_VAR)\((.*)\)\s*", re.DOTALL)
_NAME = re.compile(r"""["']?(\w+)["']?""")
_CUT = re.compile(r"^… \[\d+ bytes cut\] …$", re.MULTILINE)
_MOST = 20
"""Places where an answer may begin, the last ones: each is looked for in the whole context."""
_LONGEST = 10_000
"""Lines of one answer."""
_WORDS = 50
"""So many words in a row make a quotation."""


def printed_answer(code: str, said: str, context: str, text_of: Callable[[str], str | None]) -> str | None:
    """The answer in what successful code has said, or None; `text_of` gives a variable as text, or None."""
    texts = list(dict.fromkeys(_candidates(said))) if BEGINS.search(said) else []
    intent = intent_of(code) if texts else None
    if intent is None or not intent.meant:
        return None
    literals = {text.strip() for literal in intent.literals for text in _candidates(literal)}
    for text in texts:
        found = None if _CUT.search(text) else read_final(text)
        if found is None or (text.strip() not in literals and _stands_in(context, text)):
            continue
        kind, value = found
        answer = value if kind == "FINAL" else text_of(value)
        if answer is not None:
            return answer
    return None


def was_missed(code: str, said: str) -> bool:
    """Did code that speaks of FINAL print what looks like an answer? Asked if there is none."""
    return "FINAL" in code and BEGINS.search(said) is not None


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


def _candidates(said: str) -> Iterator[str]:
    """Lines that begin as an answer does, each up to where its bracket closes at the end of a line."""
    lines = said.split("\n")
    for first in [place for place, line in enumerate(lines) if BEGINS.match(line)][-_MOST:]:
        depth, taken = 0, []
        for more in lines[first : first + _LONGEST]:
            taken.append(more)
            depth += more.count("(") - more.count(")")
            if depth <= 0:
                break
        yield "\n".join(taken) if depth == 0 else lines[first]


def _stands_in(context: str, text: str) -> bool:
    """Whatever the space between the words."""
    return re.search(r"\s+".join(map(re.escape, text.split()[:_WORDS])), context) is not None

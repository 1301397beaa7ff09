"""The prompts for a language model that plays the REPL, and how its replies are parsed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envweave.envs.repl.answers import final_in
from envweave.envs.repl.types import REPLObservation

SYSTEM_PROMPT = """\
You answer a task about a text that is too long to read at once. In a Python REPL it is the variable `context`.

Write Python in a block that begins with ```repl and ends with ```. It is run, and you are shown what it printed.
Variables last from block to block.

In the REPL there are:
- `context`: the text, as a string. Look at parts of it, search it, split it; do not print all of it.
- `llm_query(prompt)`: asks a language model and returns its answer. It sees nothing but the prompt, so put the part of
  the context that matters into it.
- `llm_query_batched(prompts)`: the same for a list of prompts, at the same time.
- `rlm_query(prompt)`: has a language model work on a long prompt in a REPL of its own; `rlm_query_batched(prompts)` for
  several.
- `SHOW_VARS()`: the names of your variables.

When you know the answer, give it from a block with `FINAL(answer)`, or with `FINAL_VAR("name")` if it is in a variable.
Do so only when you have seen that it is right.
"""

NUDGE = "Write the next step as Python in a ```repl block, or give the answer with FINAL(answer) in such a block."
LAST_CALL = "This is your last step: give your best answer now with FINAL(answer) in a ```repl block."

_OPENS = re.compile(r"[ \t]*```[ \t]*(?:repl|python|py)[ \t]*", re.IGNORECASE)
_CLOSES = re.compile(r"[ \t]*```[ \t]*")
_SHOWN = 20_000
"""Characters of one block's output."""


def first_prompt(task: str, seen: REPLObservation) -> str:
    """The task and the beginning of the context."""
    preview = f"\nIt begins:\n{seen.context_preview}\n" if seen.context_preview else ""
    return f"Task: {task}\n\n`context` has {seen.context_length} characters.{preview}\n{NUDGE}"


def code_blocks(reply: str) -> list[str]:
    """The blocks of code in a reply. A block that is not closed is left out: the reply may have been cut."""
    blocks: list[str] = []
    block: list[str] | None = None
    for line in reply.replace("\r\n", "\n").split("\n"):
        if block is None:
            block = [] if _OPENS.fullmatch(line) else None
        elif _CLOSES.fullmatch(line):
            blocks.append("\n".join(block))
            block = None
        else:
            block.append(line)
    return blocks


def answer_in_words(reply: str) -> tuple[str, str] | None:
    """The answer in a reply without code: `FINAL` or `FINAL_VAR`, alone on its lines, and its argument."""
    return final_in(reply.replace("\r\n", "\n"))


def outcome_prompt(seen: Sequence[REPLObservation], *, last: bool) -> str:
    """The output of the blocks of the last reply."""
    parts = []
    for number, observation in enumerate(seen, 1):
        result = observation.result
        said = "\n".join(part for part in (result.stdout.rstrip("\n"), result.stderr.rstrip("\n")) if part)
        head = f"Block {number}:" if len(seen) > 1 else "Output:"
        parts.append(f"{head}\n{said[:_SHOWN] or '(nothing was printed)'}")
    if seen:
        parts.append(f"Variables: {', '.join(seen[-1].available_variables) or 'none'}")
    parts.append(LAST_CALL if last else NUDGE)
    return "\n\n".join(parts)

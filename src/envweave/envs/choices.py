"""Questions with four options: their types, how they are shown, and how a letter is read from a reply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from envweave.errors import InvalidActionError
from envweave.types import Action, Observation

Letter: TypeAlias = Literal["A", "B", "C", "D"]
LETTERS: tuple[Letter, ...] = ("A", "B", "C", "D")

INSTRUCTIONS = "End your reply with the letter of your choice, as in `Answer: A`."

_MARKED = re.compile(r"(?:answer|choice|option)(?:\s+is)?\s*:?\s*[*_(`\[]*([A-D])\b(?!')", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{\s*(?:\\text\{)?\(?([A-Da-d])\)?\}?\s*\}")
_ALONE = re.compile(r"[\s*_(`\[]*([A-Da-d])[\s*_)`\].:]*")


@dataclass
class Choice(Action):
    """The option that is right."""

    choice: Letter


@dataclass
class ChoiceQuestion(Observation):
    """A question, and its options in the order of their letters."""

    prompt: str = ""
    options: list[str] = field(default_factory=list)


def question_text(question: str, options: Sequence[str]) -> str:
    """The question with its options, one per line."""
    lines = [f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=True)]
    return "\n".join([question, "", *lines])


def read_choice(text: str) -> Choice:
    """The letter in a reply: boxed, after `answer`, or alone; the last one counts.

    Raises `InvalidActionError` if there is none, so that it is never taken for an option.
    """
    for pattern in (_BOXED, _MARKED):
        found = pattern.findall(text)
        if found:
            return Choice(found[-1].upper())
    lines = [line for line in text.splitlines() if line.strip()]
    alone = _ALONE.fullmatch(lines[-1]) if lines else None
    if alone is None:
        raise InvalidActionError("the reply has no letter", INSTRUCTIONS)
    return Choice(alone[1].upper())  # type: ignore[arg-type]

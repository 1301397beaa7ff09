"""Questions with four options: their types, the environment that asks them, and how a letter is read from a reply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from envweave.core.environment import Environment
from envweave.core.task import Task
from envweave.errors import InvalidActionError
from envweave.lm.messages import Message
from envweave.tasks.tasks import Tasks
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


class ChoiceEnv(Environment[Choice, ChoiceQuestion]):
    """One question, one choice; the right one earns 1. Subclasses set `tasks`: `prompt`, `options` and `answer`."""

    tasks: Tasks
    _task: Task

    def reset(self, *, task: Task, seed: int | None = None) -> ChoiceQuestion:
        self._task = task
        return ChoiceQuestion(task.prompt, task["options"])

    def step(self, action: Choice) -> ChoiceQuestion:
        return ChoiceQuestion(reward=float(action.choice == self._task["answer"]), done=True)

    def to_messages(self, observation: ChoiceQuestion) -> str | list[str]:
        return [] if observation.done else question_text(observation.prompt, observation.options)

    def read_reply(self, message: Message) -> Choice:
        return read_choice(message.content if isinstance(message.content, str) else "")

    def gold(self) -> Choice:
        """The right answer to the question of this episode."""
        return Choice(self._task["answer"])


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

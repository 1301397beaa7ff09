"""`rlm_query`: a language model works on a prompt in a child REPL.

The depth, the number of children per episode, and the turns and the time of each are bounded. At the maximum depth, the
prompt goes straight to the model.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from envweave.core.handle import EnvHandle
from envweave.envs.repl.driver import play
from envweave.envs.repl.llm_backends import LLMBackend
from envweave.envs.repl.types import REPLAction, REPLObservation
from envweave.lm import Message

_SHORT = 4_000
"""Characters; a prompt up to this length is also the task, a longer one is only in `context`."""


@dataclass
class Budget:
    """Shared by all REPLs of one episode."""

    children: int
    """Child REPLs that are left."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the episode has ended."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> None:
        with self._lock:
            if self.children <= 0:
                raise RuntimeError("this episode has used up its REPLs for rlm_query")
            self.children -= 1

    def copied(self) -> Budget:
        return Budget(self.children)


@dataclass(frozen=True)
class RecursionLevel:
    """The depth of a REPL, its backend, and the bounds of its children."""

    backend: LLMBackend
    budget: Budget
    depth: int = 0
    max_depth: int = 2
    max_iterations: int = 30
    child_seconds: float = 300.0
    deadline: float | None = None

    @property
    def may_have_children(self) -> bool:
        return self.depth + 1 < self.max_depth

    def child(self) -> RecursionLevel:
        """The level of a child, whose time begins now and ends with that of its parent at the latest."""
        ends = time.monotonic() + self.child_seconds
        return replace(self, depth=self.depth + 1, deadline=ends if self.deadline is None else min(ends, self.deadline))


MakeChild = Callable[[RecursionLevel], EnvHandle[REPLAction, REPLObservation]]


def answer_in_child(level: RecursionLevel, make: MakeChild, prompt: str, model: str | None) -> str:
    """The answer of a child REPL to a prompt. Raises `RuntimeError` if it gives none."""
    if not level.may_have_children:
        return level.backend.query(prompt, model)
    level.budget.take()
    child = level.child()

    def chat(messages: list[Message]) -> str:
        return level.backend.chat(messages, model)

    with make(child) as env:
        task = prompt if len(prompt) <= _SHORT else "Do what the text in `context` asks for."
        begun = env.reset(context=prompt, task_prompt=task, max_iterations=child.max_iterations)
        run = play(
            chat,
            env,
            begun,
            task,
            max_turns=child.max_iterations,
            deadline=child.deadline,
            stopped=level.budget.ended.is_set,
        )
    if run.answer is None:
        raise RuntimeError(f"the child REPL gave no answer: {run.ended}")
    return run.answer

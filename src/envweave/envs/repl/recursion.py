"""`rlm_query`: a language model works on a prompt in a REPL of its own, below the one that asks.

Bounded are how deep REPLs lie below one another, how many there are in an episode, the turns and the time of each.
Below the deepest, a question goes straight to the model.
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
"""Characters; a prompt up to this length is told in full, a longer one is only in `context`."""


@dataclass
class Budget:
    """What the REPLs of one episode may use together."""

    children: int
    """How many more there may be."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Nobody waits for them any more."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> None:
        with self._lock:
            if self.children <= 0:
                raise RuntimeError("this episode has had as many REPLs for rlm_query as it may")
            self.children -= 1

    def copied(self) -> Budget:
        return Budget(self.children)


@dataclass(frozen=True)
class Lineage:
    """Where a REPL stands among others, and the bounds that hold from there on."""

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

    def child(self) -> Lineage:
        """The next one below; it has its time from now on, and no more than those above."""
        ends = time.monotonic() + self.child_seconds
        return replace(self, depth=self.depth + 1, deadline=ends if self.deadline is None else min(ends, self.deadline))


def answer_below(
    lineage: Lineage, make: Callable[[Lineage], EnvHandle[REPLAction, REPLObservation]], prompt: str, model: str | None
) -> str:
    """The answer to a prompt from a REPL below. Raises `RuntimeError` if it came to none."""
    if not lineage.may_have_children:
        return lineage.backend.query(prompt, model)
    lineage.budget.take()
    below = lineage.child()

    def chat(messages: list[Message]) -> str:
        return lineage.backend.chat(messages, model)

    with make(below) as env:
        task = prompt if len(prompt) <= _SHORT else "Do what the text in `context` asks for."
        begun = env.reset(context=prompt, task_prompt=task, max_iterations=below.max_iterations)
        run = play(
            chat,
            env,
            begun,
            task,
            max_turns=below.max_iterations,
            deadline=below.deadline,
            stopped=lineage.budget.ended.is_set,
        )
    if run.answer is None:
        raise RuntimeError(f"the REPL below came to no answer: {run.ended}")
    return run.answer

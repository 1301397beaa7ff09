"""What environments have in common whose actions are code: live Python that branches, and a reward from outside.

A subclass has `reset`, `step` and `state`, keeps what it knows of an episode in `_episode`, and gives the functions
that the code may call.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

from envweave.core.environment import Environment
from envweave.envs.interpreter import Interpreter
from envweave.envs.stay import Parked
from envweave.sandbox import ExecutionResult

EXAMPLES = ("x = random.random()", "print(x)", "x * 2", "[len(word) for word in 'a bc def'.split()]", "1 / 0", "def")
"""Code that a random policy tries."""

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")


@dataclass(frozen=True)
class Moment:
    """A snapshot: the live Python, and what the environment knew of the episode."""

    python: Parked
    episode: Any


class CodeEnvironment(Environment[ActT, ObsT]):
    """Sync, one call at a time. What is dropped without `close` is closed soon after."""

    applies_transform: ClassVar[bool] = True
    OPERATOR_OPTIONS: ClassVar[frozenset[str]] = frozenset({"limits", "lineage", "modules", "sandbox", "servers"})

    def __init__(self, python: Interpreter, transform: Callable[[Any], Any] | None, episode: Any) -> None:
        self.transform = transform
        self._python = python
        self._episode = episode
        """A dataclass that is replaced, never changed in place."""

    def _functions(self) -> dict[str, Callable[..., Any]]:
        """The functions on this side that the code calls by name."""
        return {}

    def _ran(self, code: str) -> ExecutionResult:
        """Run the code of a step, and count it in an episode that counts."""
        result = self._python.run(code)
        count = self._episode.step_count + 1
        self._episode = replace(self._episode, step_count=count, last_exit_code=result.exit_code)
        return result

    def snapshot(self) -> Moment:
        return Moment(self._python.snapshot(), self._episode)

    def restore(self, snapshot: Moment) -> None:
        self._python.resume(snapshot.python, self._functions())
        self._episode = snapshot.episode

    def fork(self) -> Self:
        """A second environment at the same point of the same episode, with the same live Python."""
        twin = copy(self)
        twin._part_from(self)
        twin._python = self._python.fork(twin._functions())
        return twin

    def _part_from(self, original: Self) -> None:
        """In a copy: have of one's own what the two must not share."""

    def close(self) -> None:
        self._python.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

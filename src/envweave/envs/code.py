"""The base of environments whose actions are code: a Python interpreter that can be forked, and a transform.

A subclass has `reset`, `step` and `state`, keeps its data on the episode in `_episode`, and may override `_functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

from envweave.core.environment import Environment
from envweave.core.transform import check_transform, scored
from envweave.envs.episode_session import ParkedSession
from envweave.envs.interpreter import Interpreter
from envweave.errors import InvalidActionError, ResetNeededError
from envweave.rewards.observation import member, metadata_of
from envweave.rewards.transforms import STYLE_PAID
from envweave.sandbox import ExecutionResult
from envweave.types import Action, Observation

EXAMPLES = ("x = random.random()", "print(x)", "x * 2", "[len(word) for word in 'a bc def'.split()]", "1 / 0", "def")
"""Code for a random policy."""

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT", bound=Observation)


@dataclass
class CodeAction(Action):
    """Run Python code. Variables, functions, imports and files last until the end of the episode."""

    code: str = field(metadata={"examples": list(EXAMPLES)})


@dataclass(frozen=True)
class CodeSnapshot:
    """The interpreter and the environment's data on the episode."""

    python: ParkedSession
    episode: Any
    is_over: bool = False
    paid: Mapping[str, Any] = field(default_factory=dict)


class CodeEnvironment(Environment[ActT, ObsT]):
    """Sync, one call at a time. Closed soon after it is garbage-collected, if not before."""

    applies_transform: ClassVar[bool] = True
    OPERATOR_OPTIONS: ClassVar[frozenset[str]] = frozenset({"limits", "modules", "sandbox"})

    def __init__(self, python: Interpreter, transform: Callable[[Any], Any] | None, episode: Any) -> None:
        check_transform(transform)
        self.transform = transform
        self._python = python
        self._episode = episode
        """A dataclass that is never changed in place."""
        self._is_over = False
        self._paid: Mapping[str, Any] = {}
        """What style has earned in this episode, for the transform."""

    def _functions(self) -> dict[str, Callable[..., Any]]:
        """The functions outside of the sandbox that the code can call, by name."""
        return {}

    def _begin_episode(self, episode: Any) -> None:
        self._episode, self._is_over, self._paid = episode, False, {}

    def _check_running(self) -> None:
        """Raise `ResetNeededError` if the episode is over, so that no answer is given twice."""
        if self._is_over:
            raise ResetNeededError("the episode is over", "call env.reset() first")

    def _scored(self, seen: ObsT) -> ObsT:
        """Apply the transform to what a step returns. It may end the episode."""
        seen = scored(self.transform, replace(seen, metadata={**seen.metadata, **self._paid}))
        self._is_over = bool(member(seen, "done"))
        self._paid = {name: value for name, value in metadata_of(seen).items() if name == STYLE_PAID}
        return seen

    def _ran(self, action: CodeAction) -> ExecutionResult:
        """Run the code of a step. `_episode` must have `step_count` and `last_exit_code`, which are updated."""
        self._check_running()
        result = self._python.run(_code_of(action))
        count = self._episode.step_count + 1
        self._episode = replace(self._episode, step_count=count, last_exit_code=result.exit_code)
        return result

    def snapshot(self) -> CodeSnapshot:
        return CodeSnapshot(self._python.snapshot(), self._episode, self._is_over, self._paid)

    def restore(self, snapshot: CodeSnapshot) -> None:
        self._python.resume(snapshot.python, self._functions())
        self._episode, self._is_over, self._paid = snapshot.episode, snapshot.is_over, snapshot.paid

    def fork(self) -> Self:
        """A second environment at the same point of the same episode, with the same live Python."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._detach_from(self)
        twin._python = self._python.fork(twin._functions())
        return twin

    def _detach_from(self, original: Self) -> None:
        """In a copy: replace what the two must not share."""

    def __reduce__(self) -> Any:
        raise TypeError("live Python cannot leave its process")

    def close(self) -> None:
        self._python.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _code_of(action: Any) -> str:
    code = getattr(action, "code", None)
    if not isinstance(code, str):
        hint = "write env.step(CodeAction(code='…')); a handle, as of ew.make, takes plain data too"
        raise InvalidActionError(f"the action is {action!r:.80}", hint)
    return code

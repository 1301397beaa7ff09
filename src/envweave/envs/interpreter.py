"""The Python that an agent writes into: a fresh session of the sandbox for each episode.

Environments that hold code in the same way share one sandbox, so that a session can be forked into another
environment. The sandbox ends with the last environment or snapshot that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from envweave.envs.shared import Share
from envweave.errors import ResetNeededError, SandboxError, UsageError
from envweave.sandbox import ExecutionResult, Limits, Sandbox, Session, Snapshot
from envweave.sandbox.core import UNSET

MODULES = (
    "collections", "datetime", "decimal", "fractions", "functools", "itertools", "json", "math", "operator", "random",
    "re", "statistics", "string", "time",
)  # fmt: skip
"""What is imported before the first line of code."""

Functions = Mapping[str, Callable[..., Any]]
T = TypeVar("T")

_SEEDED = """
__import__("random").seed({seed})
if "numpy" in __import__("sys").modules:
    __import__("numpy").random.seed({seed} % (1 << 32))
"""


@dataclass(frozen=True)
class Furniture:
    """What a fresh interpreter has before the agent's first line: in a new episode, and again after a kill."""

    definitions: str = ""
    """Code of the environment's own."""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parked:
    """An interpreter at rest. It goes when nobody holds it any more."""

    house: Share[Sandbox]
    snapshot: Share[Snapshot]
    furniture: Furniture

    def __reduce__(self) -> Any:
        raise TypeError("live Python cannot leave its process")


class Interpreter:
    """For one environment, one call at a time. `begin` starts an episode, `close` gives everything back."""

    def __init__(
        self,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        modules: Iterable[str] = MODULES,
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        """`modules` are imported before the code begins; `sandbox` has options of `Sandbox`, its walls above all."""
        names = tuple(modules)
        wrong = next((name for name in names if not all(part.isidentifier() for part in name.split("."))), None)
        if wrong is not None:
            raise UsageError(f"{wrong!r} is not a module", "modules=('math', 'numpy')")
        self._imports = "\n".join(f"import {name}" for name in names)
        self._house = _house(_limits(limits), {"preload": names, **(sandbox or {})})
        self._seat: Share[Session] | None = None
        self._furniture = Furniture()
        self._births = 0

    @property
    def begun(self) -> bool:
        """Is there an episode?"""
        return self._seat is not None

    @property
    def session(self) -> Session:
        if self._seat is None:
            raise ResetNeededError("there is no episode yet", "call env.reset() first")
        return self._seat.thing

    def begin(self, *, seed: int | None = None, tools: Functions | None = None, furniture: Furniture) -> None:
        """A new session in place of the old one. With a seed, `random` inside is seeded."""
        seeded = "" if seed is None else _SEEDED.format(seed=int(seed))
        definitions = "\n".join((self._imports, seeded, furniture.definitions))
        self._furniture = Furniture(definitions, furniture.values)
        self._sit(self._house.thing.start(tools=tools))
        self._furnish()

    def run(self, code: str, timeout: float | None = UNSET) -> ExecutionResult:
        """Run code. If it had to be killed, the next run finds what the episode began with, and the files."""
        result = self.session.run(code, timeout)
        if self.session.births != self._births and result.state != "ended":
            self._furnish()
        return result

    def get(self, name: str) -> Any:
        return self._asked(lambda session: session.get(name))

    def describe(self, longest: int) -> dict[str, str]:
        """The variables by name, with the `repr` of each."""
        return self._asked(lambda session: session.describe(longest))

    def variables(self) -> dict[str, str]:
        """The variables by name, with the type of each."""
        return self._asked(lambda session: session.variables())

    def fork(self, tools: Functions | None = None) -> Interpreter:
        """Another with the same live state; `tools` answer there in place of those here."""
        session = self.session.fork(tools=tools)
        twin = object.__new__(Interpreter)
        twin._imports, twin._house = self._imports, self._house.again()
        twin._seat, twin._furniture, twin._births = Share.new(session), self._furniture, self._births
        return twin

    def snapshot(self) -> Parked:
        """The live state, for `resume`."""
        return Parked(self._house.again(), Share.new(self.session.snapshot()), self._furniture)

    def resume(self, parked: Parked, tools: Functions | None = None) -> None:
        """Be as the snapshot was, which may be of another interpreter with other walls."""
        session = parked.snapshot.thing.start(tools=tools)
        self._sit(session)
        old, self._house = self._house, parked.house.again()
        old.leave()
        self._furniture = parked.furniture

    def close(self) -> None:
        """Safe to call twice."""
        seat, self._seat = self._seat, None
        try:
            if seat is not None:
                seat.leave()
        finally:
            self._house.leave()

    def _sit(self, session: Session) -> None:
        old, self._seat, self._births = self._seat, Share.new(session), session.births
        if old is not None:
            old.leave()

    def _furnish(self) -> None:
        session = self.session
        self._births = session.births
        if self._furniture.definitions:
            session.define(self._furniture.definitions)
        for name, value in self._furniture.values.items():
            session.set(name, value)

    def _asked(self, question: Callable[[Session], T]) -> T:
        """A question may run code of the agent, a `__repr__`, and so end its interpreter."""
        session = self.session
        try:
            return question(session)
        except SandboxError:
            if session.births != self._births:
                self._furnish()
            raise


def _house(limits: Limits, options: Mapping[str, Any]) -> Share[Sandbox]:
    """The sandbox that holds code in this way."""

    def make() -> Sandbox:
        try:
            return Sandbox(limits=limits, **options)
        except TypeError as error:
            raise UsageError(f"no sandbox can be made like this: {error}", "see `Sandbox` for its options") from None

    known = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return Share.of((limits, *sorted(known.items())), make)


def _limits(given: Limits | Mapping[str, Any] | None) -> Limits:
    if isinstance(given, Limits):
        return given
    try:
        return Limits(**(given or {}))
    except TypeError as error:
        raise UsageError(f"no limits can be made of {given!r}: {error}", "see `Limits` for their names") from None

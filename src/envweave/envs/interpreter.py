"""The Python that an agent writes into: a fresh session of the sandbox for each episode.

Environments that hold code in the same way share one sandbox, so that a session can be forked into another
environment. The sandbox ends with the last environment or snapshot that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from envweave.envs.shared import Share
from envweave.errors import ClosedError, ResetNeededError, SandboxError, UsageError
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
    names: frozenset[str]
    """Of the tools that its code knows."""

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
        if isinstance(modules, str):
            raise UsageError(f"modules is {modules!r}", f"write modules=({modules!r},)")
        names = tuple(modules)
        wrong = next((name for name in names if not all(part.isidentifier() for part in name.split("."))), None)
        if wrong is not None:
            raise UsageError(f"{wrong!r} is not a module", "modules=('math', 'numpy')")
        self._modules = names
        self._house = _house(_limits(limits), {"preload": names, **(sandbox or {})})
        self._lodging: Share[Sandbox] | None = None
        """The sandbox of an episode that was begun in another interpreter."""
        self._seat: Share[Session] | None = None
        self._furniture = Furniture()
        self._names: frozenset[str] = frozenset()
        self._births = 0
        self._closed = False

    @property
    def begun(self) -> bool:
        """Is there an episode?"""
        return self._seat is not None

    @property
    def session(self) -> Session:
        self._check_open()
        if self._seat is None:
            raise ResetNeededError("there is no episode yet", "call env.reset() first")
        return self._seat.thing

    def begin(self, *, seed: int | None = None, tools: Functions | None = None, furniture: Furniture) -> None:
        """A new session in place of the old one. With a seed, `random` inside is seeded."""
        self._check_open()
        imports = [f"import {name}" for name in self._modules if name.partition(".")[0] not in (tools or ())]
        seeded = "" if seed is None else _SEEDED.format(seed=int(seed))
        definitions = "\n".join((*imports, seeded, furniture.definitions))
        self._sit(self._house.thing.start(tools=tools), None)
        self._furniture, self._names = Furniture(definitions, furniture.values), frozenset(tools or ())
        self._furnish()

    def run(self, code: str, timeout: float | None = UNSET) -> ExecutionResult:
        """Run code. If it had to be killed, the next run finds what the episode began with, and the files."""
        session = self.session
        result = session.run(code, timeout)
        if self._seat is None or self._seat.thing is not session:  # by another thread
            raise ClosedError("the episode was ended while its code ran")
        if session.births != self._births and result.state != "ended":
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
        """Another with the same live state; `tools` answer there in place of those here, if the code knows them."""
        session = self.session.fork(tools=_known(tools, self._names))
        twin = object.__new__(Interpreter)
        twin._modules, twin._house, twin._closed = self._modules, self._house.again(), False
        twin._lodging = None if self._lodging is None else self._lodging.again()
        twin._seat, twin._births = Share.new(session), self._births
        twin._furniture, twin._names = self._furniture, self._names
        return twin

    def snapshot(self) -> Parked:
        """The live state, for `resume`."""
        snapshot = Share.new(self.session.snapshot())
        return Parked((self._lodging or self._house).again(), snapshot, self._furniture, self._names)

    def resume(self, parked: Parked, tools: Functions | None = None) -> None:
        """Be as the snapshot was until the next episode; it may be of another interpreter with other walls.

        `tools` answer in place of those that it had under the same names.
        """
        self._check_open()
        self._sit(parked.snapshot.thing.start(tools=_known(tools, parked.names)), parked.house.again())
        self._furniture, self._names = parked.furniture, parked.names

    def close(self) -> None:
        """For good. Safe to call twice."""
        self._closed = True
        seat, lodging, self._seat, self._lodging = self._seat, self._lodging, None, None
        _leave(seat, lodging, self._house)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the environment is closed")

    def _sit(self, session: Session, lodging: Share[Sandbox] | None) -> None:
        old = self._seat, self._lodging
        self._seat, self._lodging, self._births = Share.new(session), lodging, session.births
        _leave(*old)
        if self._closed:  # meanwhile, by another thread
            self.close()
            self._check_open()

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


def _known(tools: Functions | None, names: frozenset[str]) -> Functions:
    """Those that code knows by name; others came later, and are for the next episode."""
    return {name: tool for name, tool in (tools or {}).items() if name in names}


def _leave(*shares: Share[Any] | None) -> None:
    """In their order; one that fails does not keep the others from being left."""
    with ExitStack() as ends:
        for share in reversed(shares):
            if share is not None:
                ends.callback(share.leave)


def _house(limits: Limits, options: Mapping[str, Any]) -> Share[Sandbox]:
    """The sandbox that holds code in this way."""

    def make() -> Sandbox:
        try:
            return Sandbox(limits=limits, **options)
        except TypeError as error:
            raise UsageError(f"no sandbox can be made like this: {error}", "see `Sandbox` for its options") from None

    return Share.of((limits, _key(options)), make)


def _key(value: Any) -> Any:
    """Something that is the same for the same options, and can be looked up."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(name), _key(each)) for name, each in value.items()))
    if isinstance(value, set):
        return frozenset(value)
    return tuple(map(_key, value)) if isinstance(value, list | tuple) else value


def _limits(given: Limits | Mapping[str, Any] | None) -> Limits:
    if isinstance(given, Limits):
        return given
    try:
        return Limits(**(given or {}))
    except TypeError as error:
        raise UsageError(f"no limits can be made of {given!r}: {error}", "see `Limits` for their names") from None

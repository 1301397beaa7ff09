"""The Python interpreter of an environment: a fresh session of the sandbox for each episode.

Environments with the same sandbox options share one sandbox, so that a session can be forked into another environment.
The sandbox is closed with the last environment or snapshot that uses it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sized
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from envweave.core.suggest import refuse_unknown
from envweave.envs.shared import Share
from envweave.errors import ClosedError, ResetNeededError, SandboxError, UsageError
from envweave.sandbox import ExecutionResult, Inspection, Limits, Sandbox, Session, Snapshot

MODULES = (
    "collections", "datetime", "decimal", "fractions", "functools", "itertools", "json", "math", "operator", "random",
    "re", "statistics", "string", "time",
)  # fmt: skip
"""Imported before the agent's code runs."""

_SEEDED = """
__import__("random").seed({seed})
if "numpy" in __import__("sys").modules:
    __import__("numpy").random.seed({seed} % (1 << 32))
"""

Functions = Mapping[str, Callable[..., Any]]
T = TypeVar("T")


@dataclass(frozen=True)
class Prelude:
    """Run in a fresh interpreter before the agent's code: in a new episode, and again after a kill."""

    definitions: str = ""
    """Code of the environment."""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ParkedSession:
    """A snapshot of a session, and what is needed to continue it. Closed when it is garbage-collected."""

    snapshot: Share[Snapshot]
    prelude: Prelude
    names: frozenset[str]

    def __reduce__(self) -> Any:
        raise TypeError("live Python cannot leave its process")


@dataclass
class EpisodeSession:
    """The session of one episode, which keeps its sandbox open."""

    share: Share[Session]
    prelude: Prelude
    names: frozenset[str]
    """The names of the tools that its code knows."""
    births: int = 0
    """The number of the interpreter, from 1, in which the prelude has run; 0 for none."""

    def run_prelude(self) -> None:
        """Run the prelude unless the current interpreter of the session has it."""
        session = self.share.resource
        if self.births == session.births:
            return
        self.births = session.births
        if self.prelude.definitions:
            session.define(self.prelude.definitions)
        for name, value in self.prelude.values.items():
            _set(session, name, value)


class Interpreter:
    """For one environment, one call at a time. `begin` starts an episode, `close` releases everything."""

    def __init__(
        self,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        modules: Iterable[str] = MODULES,
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        """`modules` are imported before the agent's code runs; `sandbox` has options of `Sandbox`."""
        self._modules = _checked_modules(modules)
        if sandbox is not None and not isinstance(sandbox, Mapping):
            raise UsageError(f"sandbox is {sandbox!r}", "pass options of `Sandbox`: sandbox={'backend': 'docker'}")
        self._options = {"preload": self._modules, **(sandbox or {})}
        self._sandbox = _shared_sandbox(_checked_limits(limits), self._options)
        self._current: EpisodeSession | None = None
        self._closed = False

    @property
    def begun(self) -> bool:
        """Whether there is an episode."""
        return self._current is not None

    @property
    def session(self) -> Session:
        return self._here.share.resource

    @property
    def limits(self) -> Limits:
        """Those of its sessions, unless `begin` is given others."""
        return self._sandbox.resource.limits

    @property
    def session_limits(self) -> Limits:
        """Those of the current session."""
        within = self._here.share.within
        return self.limits if within is None else within.resource.limits

    def begin(
        self,
        *,
        seed: int | None = None,
        tools: Functions | None = None,
        prelude: Prelude,
        limits: Limits | None = None,
    ) -> None:
        """Replace the session by a new one. A seed also seeds `random` inside. `limits` are for this session."""
        self._check_open()
        imports = [f"import {name}" for name in self._modules if name.partition(".")[0] not in (tools or ())]
        seeded = "" if seed is None else _SEEDED.format(seed=checked_seed(seed))
        prelude = replace(prelude, definitions="\n".join((*imports, seeded, prelude.definitions)))
        sandbox = self._sandbox.again() if limits is None else _shared_sandbox(limits, self._options)
        try:
            share = Share.new(sandbox.resource.start(tools=tools), within=sandbox)
        finally:
            sandbox.release()  # the session keeps it open
        self._move(EpisodeSession(share, prelude, frozenset(tools or ())))

    def run(self, code: str, timeout: float | None = None) -> ExecutionResult:
        """Run code, for so many seconds if that is less than the limit `wall`.

        If the interpreter is killed, the prelude is run again; files are kept.
        """
        current = self._here
        session = current.share.resource
        return self._checked(current, session.run(code, self._timeout(timeout)))

    def _timeout(self, seconds: float | None) -> float | None:
        """The lower of the limit `wall` and a time of its own."""
        wall = self.session_limits.wall
        return wall if seconds is None else seconds if wall is None else min(seconds, wall)

    def run_and_inspect(
        self, code: str, timeout: float | None = None, **options: Any
    ) -> tuple[ExecutionResult, Inspection | None]:
        """As `run`, with what `Session.run_and_inspect` finds afterwards."""
        current = self._here
        result, found = current.share.resource.run_and_inspect(code, self._timeout(timeout), **options)
        return self._checked(current, result), found

    def _checked(self, current: EpisodeSession, result: ExecutionResult) -> ExecutionResult:
        if self._current is not current:  # by another thread
            raise ClosedError("the episode was ended while its code ran")
        if result.state != "ended":
            current.run_prelude()
        return result

    def describe(self, longest: int, most: int | None = None) -> dict[str, str]:
        """The `repr` of each variable, by name."""
        return self._ask(lambda session: session.describe(longest, most))

    def variables(self) -> dict[str, str]:
        """The type of each variable, by name."""
        return self._ask(lambda session: session.variables())

    def _ask(self, question: Callable[[Session], T]) -> T:
        """Call `question`, which may run code of the agent, such as a `__repr__`, and so end its interpreter."""
        current = self._here
        try:
            return question(current.share.resource)
        except SandboxError:
            current.run_prelude()
            raise

    def fork(self, tools: Functions | None = None) -> Interpreter:
        """An interpreter with the same live state. `tools` replace those that its code knows by the same names."""
        current, twin = self._here, copy(self)
        session = current.share.resource.fork(tools=_known(tools, current.names))
        twin._current = replace(current, share=Share.new(session, within=current.share.within))
        twin._sandbox = self._sandbox.again()
        return twin

    def snapshot(self) -> ParkedSession:
        """The live state, for `resume`."""
        current = self._here
        share = Share.new(current.share.resource.snapshot(), within=current.share.within)
        return ParkedSession(share, current.prelude, current.names)

    def resume(self, parked: ParkedSession, tools: Functions | None = None) -> None:
        """Continue from a snapshot, which may be of an interpreter with another sandbox."""
        self._check_open()
        session = parked.snapshot.resource.start(tools=_known(tools, parked.names))
        share = Share.new(session, within=parked.snapshot.within)
        self._move(EpisodeSession(share, parked.prelude, parked.names, session.births))

    def close(self) -> None:
        """Safe to call twice."""
        self._closed = True
        current, self._current = self._current, None
        try:
            if current is not None:
                current.share.release()
        finally:
            self._sandbox.release()

    @property
    def _here(self) -> EpisodeSession:
        self._check_open()
        if self._current is None:
            raise ResetNeededError("there is no episode yet", "call env.reset() first")
        return self._current

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the environment is closed")

    def _move(self, current: EpisodeSession) -> None:
        """Continue in another session, once its prelude has run. If that fails, nothing changes."""
        try:
            current.run_prelude()
        except BaseException:
            current.share.release()
            raise
        old, self._current = self._current, current
        if old is not None:
            old.share.release()
        if self._closed:  # meanwhile, by another thread
            self.close()
            self._check_open()


def checked_seed(seed: Any) -> int | None:
    """The seed as an `int`. Raises `UsageError` if it is not a whole number."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not hasattr(type(seed), "__index__"):
        raise UsageError(f"the seed is {seed!r}", "it must be a whole number, or None")
    return int(seed)


def _checked_modules(modules: Iterable[str]) -> tuple[str, ...]:
    if isinstance(modules, str) or not isinstance(modules, Iterable):
        raise UsageError(f"modules is {modules!r}", "modules=('math', 'numpy')")
    names = tuple(modules)
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"{name!r} is not a module", "modules=('math', 'numpy')")
    return names


def _checked_limits(given: Limits | Mapping[str, Any] | None) -> Limits:
    if isinstance(given, Limits):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"limits is {given!r}", "write limits={'wall': 5.0}, or Limits(wall=5.0)")
    refuse_unknown(given or {}, [each.name for each in fields(Limits)], "there is no limit", "limits")
    return Limits(**(given or {}))


def _shared_sandbox(limits: Limits, options: Mapping[str, Any]) -> Share[Sandbox]:
    """The sandbox of this process with these options."""
    known = [name for name in inspect.signature(Sandbox).parameters if name != "limits"]
    refuse_unknown(options, known, "the sandbox has no option", "options")

    def make() -> Sandbox:
        try:
            return Sandbox(limits=limits, **options)
        except TypeError as error:
            raise UsageError(f"the sandbox options are wrong: {error}", "see `Sandbox` for its options") from None

    return Share.of((limits, _key(options)), make)


def _key(value: Any) -> Any:
    """A hashable form of options."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(name), _key(each)) for name, each in value.items()))
    if isinstance(value, set):
        return frozenset(value)
    return tuple(map(_key, value)) if isinstance(value, list | tuple) else value


def _known(tools: Functions | None, names: frozenset[str]) -> Functions:
    """The tools that the code knows; others were added later and are for the next episode."""
    return {name: tool for name, tool in (tools or {}).items() if name in names}


def _set(session: Session, name: str, value: Any) -> None:
    try:
        session.set(name, value)
    except SandboxError as error:
        if "MemoryError" not in error.message:
            raise
        size = f" of length {len(value)}" if isinstance(value, Sized) else ""
        raise SandboxError(
            f"{name}, a {type(value).__name__}{size}, does not fit into the memory of the session",
            "raise the limit: limits={'memory_bytes': …}",
        ) from error

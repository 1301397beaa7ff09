"""The Python interpreter of an environment: a fresh session of the sandbox for each episode.

Environments with the same sandbox options share one sandbox, so that a session can be forked into another environment.
The sandbox is closed with the last environment or snapshot that uses it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import fields
from typing import Any

from envweave.core.suggest import nearest
from envweave.envs.episode_session import EpisodeSession, Functions, ParkedSession, Prelude, share_in
from envweave.envs.shared import Share
from envweave.errors import ClosedError, ResetNeededError, UsageError
from envweave.sandbox import ExecutionResult, Inspection, Limits, Sandbox, Session
from envweave.sandbox.core import UNSET

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
        self._modules = _names(modules)
        if sandbox is not None and not isinstance(sandbox, Mapping):
            raise UsageError(f"sandbox is {sandbox!r}", "pass options of `Sandbox`: sandbox={'backend': 'docker'}")
        self._sandbox = _shared_sandbox(_limits(limits), {"preload": self._modules, **(sandbox or {})})
        self._current: EpisodeSession | None = None
        self._closed = False

    @property
    def begun(self) -> bool:
        """Whether there is an episode."""
        return self._current is not None

    @property
    def session(self) -> Session:
        return self._here.session

    def begin(self, *, seed: int | None = None, tools: Functions | None = None, prelude: Prelude) -> None:
        """Replace the session by a new one. A seed also seeds `random` inside."""
        self._check_open()
        imports = [f"import {name}" for name in self._modules if name.partition(".")[0] not in (tools or ())]
        seeded = "" if seed is None else _SEEDED.format(seed=checked_seed(seed))
        definitions = "\n".join((*imports, seeded, prelude.definitions))
        sandbox, session = share_in(self._sandbox, lambda: self._sandbox.resource.start(tools=tools))
        names = frozenset(tools or ())
        self._move(EpisodeSession(sandbox, session, Prelude(definitions, prelude.values), names))

    def run(self, code: str, timeout: float | None = UNSET) -> ExecutionResult:
        """Run code. If the interpreter is killed, the prelude is run again; files are kept."""
        current = self._here
        return self._checked(current, current.session.run(code, timeout))

    def run_and_inspect(
        self, code: str, *, names: Sequence[str], longest: int, most: int
    ) -> tuple[ExecutionResult, Inspection | None]:
        """As `run`, with what `Session.run_and_inspect` finds afterwards."""
        current = self._here
        result, found = current.session.run_and_inspect(code, names=names, longest=longest, most=most)
        return self._checked(current, result), found

    def _checked(self, current: EpisodeSession, result: ExecutionResult) -> ExecutionResult:
        if self._current is not current:  # by another thread
            raise ClosedError("the episode was ended while its code ran")
        if result.state != "ended":
            current.run_prelude()
        return result

    def describe(self, longest: int, most: int | None = None) -> dict[str, str]:
        """The `repr` of each variable, by name."""
        return self._here.asked(lambda session: session.describe(longest, most))

    def variables(self) -> dict[str, str]:
        """The type of each variable, by name."""
        return self._here.asked(lambda session: session.variables())

    def fork(self, tools: Functions | None = None) -> Interpreter:
        """An interpreter with the same live state. `tools` replace those that its code knows by the same names."""
        current = self._here.fork(tools)
        twin = copy(self)
        twin._sandbox, twin._current = self._sandbox.again(), current
        return twin

    def snapshot(self) -> ParkedSession:
        """The live state, for `resume`."""
        return self._here.park()

    def resume(self, parked: ParkedSession, tools: Functions | None = None) -> None:
        """Continue from a snapshot, which may be of an interpreter with another sandbox."""
        self._check_open()
        self._move(parked.start(tools))

    def close(self) -> None:
        """Safe to call twice."""
        self._closed = True
        current, self._current = self._current, None
        try:
            if current is not None:
                current.end()
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
            current.end()
            raise
        old, self._current = self._current, current
        if old is not None:
            old.end()
        if self._closed:  # meanwhile, by another thread
            self.close()
            self._check_open()


def _names(modules: Iterable[str]) -> tuple[str, ...]:
    if isinstance(modules, str):
        raise UsageError(f"modules is {modules!r}", f"write modules=({modules!r},)")
    if not isinstance(modules, Iterable):
        raise UsageError(f"modules is {modules!r}", "modules=('math', 'numpy')")
    names = tuple(modules)
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"{name!r} is not a module", "modules=('math', 'numpy')")
    return names


def checked_seed(seed: Any) -> int | None:
    """The seed as an `int`. Raises `UsageError` if it is not a whole number."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not hasattr(type(seed), "__index__"):
        raise UsageError(f"the seed is {seed!r}", "it must be a whole number, or None")
    return int(seed)


def _shared_sandbox(limits: Limits, options: Mapping[str, Any]) -> Share[Sandbox]:
    """The sandbox of this process with these options."""
    _check_names("option of the sandbox", options, inspect.signature(Sandbox).parameters.keys() - {"limits"})

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


def _limits(given: Limits | Mapping[str, Any] | None) -> Limits:
    if isinstance(given, Limits):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"limits is {given!r}", "write limits={'wall': 5.0}, or Limits(wall=5.0)")
    _check_names("limit", given or {}, {each.name for each in fields(Limits)})
    return Limits(**(given or {}))


def _check_names(what: str, given: Mapping[str, Any], known: Set[str]) -> None:
    wrong = next((name for name in given if name not in known), None)
    if wrong is not None:
        meant = nearest(str(wrong), known)
        hint = f"there are {', '.join(sorted(known))}" if meant is None else f"did you mean {meant!r}?"
        raise UsageError(f"there is no {what} {wrong!r}", hint)

"""One episode's live Python: a session, the sandbox that it lives in, and what it began with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from envweave.envs.shared import Closable, Share
from envweave.errors import SandboxError
from envweave.sandbox import Sandbox, Session, Snapshot

Functions = Mapping[str, Callable[..., Any]]
T = TypeVar("T")
C = TypeVar("C", bound=Closable)


@dataclass(frozen=True)
class Furniture:
    """What a fresh interpreter has before the agent's first line: in a new episode, and again after a kill."""

    definitions: str = ""
    """Code of the environment's own."""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parked:
    """A stay at rest. It goes when nobody holds it any more."""

    house: Share[Sandbox]
    snapshot: Share[Snapshot]
    furniture: Furniture
    names: frozenset[str]

    def start(self, tools: Functions | None) -> Stay:
        """Another stay that begins here; `tools` answer in place of those that it had under the same names."""
        house, seat = housed(self.house, lambda: self.snapshot.thing.start(tools=_known(tools, self.names)))
        return Stay(house, seat, self.furniture, self.names, seat.thing.births)

    def __reduce__(self) -> Any:
        raise TypeError("live Python cannot leave its process")


@dataclass
class Stay:
    """From the start of a session to its end."""

    house: Share[Sandbox]
    seat: Share[Session]
    furniture: Furniture
    names: frozenset[str]
    """Of the tools that its code knows."""
    births: int = 0
    """Interpreters of the session that were furnished."""

    @property
    def session(self) -> Session:
        return self.seat.thing

    def furnish(self) -> None:
        """Put in what is missing: in a session that is new, or whose interpreter is."""
        session = self.session
        if self.births == session.births:
            return
        self.births = session.births
        if self.furniture.definitions:
            session.define(self.furniture.definitions)
        for name, value in self.furniture.values.items():
            _put(session, name, value)

    def asked(self, question: Callable[[Session], T]) -> T:
        """A question may run code of the agent, a `__repr__`, and so end its interpreter."""
        try:
            return question(self.session)
        except SandboxError:
            self.furnish()
            raise

    def fork(self, tools: Functions | None) -> Stay:
        """A second one with the same live state; `tools` answer there, as far as the code knows them."""
        house, seat = housed(self.house, lambda: self.session.fork(tools=_known(tools, self.names)))
        return replace(self, house=house, seat=seat)

    def park(self) -> Parked:
        return Parked(*housed(self.house, self.session.snapshot), self.furniture, self.names)

    def end(self) -> None:
        """Safe to call twice."""
        with ExitStack() as ends:  # a session that does not end well does not keep its sandbox from ending
            ends.callback(self.house.leave)
            ends.callback(self.seat.leave)


def housed(house: Share[Sandbox], make: Callable[[], C]) -> tuple[Share[Sandbox], Share[C]]:
    """Something that lives in a sandbox, with a share in the sandbox that is taken before it is made."""
    own = house.again()
    try:
        return own, Share.new(make())
    except BaseException:
        own.leave()
        raise


def _put(session: Session, name: str, value: Any) -> None:
    try:
        session.set(name, value)
    except SandboxError as error:
        if "MemoryError" not in error.message:
            raise
        size = f" of length {len(value)}" if isinstance(value, Sized) else ""
        raise SandboxError(
            f"{name}, a {type(value).__name__}{size}, does not fit into the memory of the session",
            "give it more: limits={'memory_bytes': …}",
        ) from error


def _known(tools: Functions | None, names: frozenset[str]) -> Functions:
    """Those that code knows by name; others came later, and are for the next episode."""
    return {name: tool for name, tool in (tools or {}).items() if name in names}

"""The session of one episode, its sandbox, and the prelude that it began with."""

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
class Prelude:
    """Run in a fresh interpreter before the agent's code: in a new episode, and again after a kill."""

    definitions: str = ""
    """Code of the environment."""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ParkedSession:
    """A snapshot of a session, and what is needed to continue it. Closed when it is garbage-collected."""

    sandbox: Share[Sandbox]
    snapshot: Share[Snapshot]
    prelude: Prelude
    names: frozenset[str]

    def start(self, tools: Functions | None) -> EpisodeSession:
        """A session that continues from the snapshot. `tools` replace those of the same names."""
        sandbox, share = share_in(self.sandbox, lambda: self.snapshot.resource.start(tools=_known(tools, self.names)))
        return EpisodeSession(sandbox, share, self.prelude, self.names, share.resource.births)

    def __reduce__(self) -> Any:
        raise TypeError("live Python cannot leave its process")


@dataclass
class EpisodeSession:
    """The session of one episode, and a share in its sandbox."""

    sandbox: Share[Sandbox]
    share: Share[Session]
    prelude: Prelude
    names: frozenset[str]
    """The names of the tools that its code knows."""
    births: int = 0
    """The number of the interpreter, from 1, in which the prelude has run; 0 for none."""

    @property
    def session(self) -> Session:
        return self.share.resource

    def run_prelude(self) -> None:
        """Run the prelude unless the current interpreter of the session has it."""
        session = self.session
        if self.births == session.births:
            return
        self.births = session.births
        if self.prelude.definitions:
            session.define(self.prelude.definitions)
        for name, value in self.prelude.values.items():
            _put(session, name, value)

    def asked(self, question: Callable[[Session], T]) -> T:
        """Call `question`, which may run code of the agent, such as a `__repr__`, and so end its interpreter."""
        try:
            return question(self.session)
        except SandboxError:
            self.run_prelude()
            raise

    def fork(self, tools: Functions | None) -> EpisodeSession:
        """A session with the same live state. `tools` replace those of the same names."""
        sandbox, share = share_in(self.sandbox, lambda: self.session.fork(tools=_known(tools, self.names)))
        return replace(self, sandbox=sandbox, share=share)

    def park(self) -> ParkedSession:
        return ParkedSession(*share_in(self.sandbox, self.session.snapshot), self.prelude, self.names)

    def end(self) -> None:
        """Safe to call twice."""
        with ExitStack() as ends:  # the sandbox is released even if closing the session fails
            ends.callback(self.sandbox.release)
            ends.callback(self.share.release)


def share_in(sandbox: Share[Sandbox], make: Callable[[], C]) -> tuple[Share[Sandbox], Share[C]]:
    """Make a session or a snapshot. Returns it with a share in its sandbox, which is taken first."""
    own = sandbox.again()
    try:
        return own, Share.new(make())
    except BaseException:
        own.release()
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
            "raise the limit: limits={'memory_bytes': …}",
        ) from error


def _known(tools: Functions | None, names: frozenset[str]) -> Functions:
    """The tools that the code knows; others were added later and are for the next episode."""
    return {name: tool for name, tool in (tools or {}).items() if name in names}

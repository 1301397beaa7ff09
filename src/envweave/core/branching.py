"""Snapshots and forks of an environment in this process: by its own methods, or else by copying it."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass
from typing import Any

from envweave.core.copying import copy_environment, pickled
from envweave.core.flow import Flow
from envweave.core.operations import LocalPlan, Operations
from envweave.core.referee import Referee
from envweave.errors import UnsupportedError, UsageError


@dataclass(frozen=True, slots=True)
class EpisodeSnapshot:
    """An episode at rest: the environment's own snapshot, and where the rules stand."""

    env: Any
    episode: dict[str, Any]

    def discard(self) -> None:
        """Close a live copy of the environment that was not used, without waiting for it."""
        if isinstance(self.env, EnvCopy) and self.env.once and self.env.env is not None:
            env, self.env.env = self.env.env, None
            close_soon(env)


@dataclass(slots=True)
class EnvCopy:
    """In place of an environment's own snapshot: a copy of the environment itself."""

    env: Any
    once: bool = False
    """The copy cannot be copied again: it was made by the environment's `fork`, and is used by the first `restore`."""

    def __reduce__(self) -> Any:
        return _unpickled_copy, (pickled(self.env), self.once)

    def take(self, id: str, like: Any, shared: Any = None) -> Any:
        """An environment to go on with in place of `like`. Raises `UnsupportedError` if there is none left."""
        if self.env is not None and type(self.env) is not type(like):
            message = f"a snapshot of a {type(self.env).__name__}, not of a {type(like).__name__}"
            raise UsageError(message, f"pass what a handle like {id} gave")
        if not self.once:
            return copy_environment(self.env, id, shared=shared)
        env, self.env = self.env, None
        if env is None:
            raise UnsupportedError(f"this copy of {id} is in use already")
        return env


def _unpickled_copy(data: bytes, once: bool) -> EnvCopy:
    return EnvCopy(pickle.loads(data), once)  # noqa: S301  (a part of what is being unpickled)


class BranchingOperations(Operations):
    """The operations that save an episode, continue a saved one, and double an environment."""

    __slots__ = ("_forks",)

    def __init__(self, plan: LocalPlan, id: str, env: Any) -> None:
        super().__init__(plan, id, env)
        self._forks = 0

    def fork_name(self) -> str:
        self._forks += 1
        return f"{self.id}.{self._forks}"

    def snapshotting(self) -> Flow[EpisodeSnapshot]:
        self.referee.admit_reset()
        if self._has("snapshot") or self._has("fork"):
            return EpisodeSnapshot((yield from self._asking("snapshot")), self.referee.save_episode())
        return EpisodeSnapshot(EnvCopy(self._copy()), self.referee.save_episode())

    def _copy(self, **hint: str) -> Any:
        """A copy of the environment. A transform that was set on the handle is shared, as in any other fork."""
        return copy_environment(self.env, self.id, shared=self.transform if self._rescored else None, **hint)

    def restoring(self, snapshot: EpisodeSnapshot) -> Flow[None]:
        if not isinstance(snapshot, EpisodeSnapshot):
            raise UsageError(f"a {type(snapshot).__name__} is not a snapshot", "pass what env.snapshot() gave")
        self.referee.admit_reset()
        replaced = None
        if isinstance(snapshot.env, EnvCopy):
            replaced = self.env
            self._replace(snapshot.env)
        else:
            yield from self._asking("restore", snapshot.env)
        self.referee.keep_ends(self.referee.abandon())
        self.referee.load_episode(snapshot.episode)
        if replaced is not None:
            yield from self._discarding(replaced)

    def _replace(self, copy: EnvCopy) -> None:
        transform = self.transform if self._rescored else None
        env = copy.take(self.id, self.env, transform)
        if self._rescored:  # the transform of the handle stays, also if it was set after the snapshot
            env.transform = transform
        rules = self._replaced_rules(env)
        self._use(env)
        self._follow_rules(rules)

    def _replaced_rules(self, env: Any) -> Referee:
        """Rules that look at the new environment and continue from the old ones."""
        rules, old = self._plan.rules(env, self.id), self.referee
        rules.load_episode(old.save_episode())
        rules.undelivered = old.undelivered
        return rules

    def _discarding(self, env: Any) -> Flow[None]:
        try:
            close = getattr(env, "close", None)
            if close is not None:
                yield close
        except Exception:  # the environment was replaced already; nothing depends on it
            return

    def copying(self) -> Flow[EpisodeSnapshot]:
        """A snapshot for one `restore`, in another environment of the same plan: the first half of a fork."""
        if not self._has("fork"):
            return (yield from self.snapshotting())
        self.referee.admit_reset()
        return EpisodeSnapshot(EnvCopy((yield from self._live_copy()), once=True), self.referee.save_episode())

    def forking(self) -> Flow[tuple[Any, EpisodeSnapshot | None]]:
        """An environment for a fork, and the snapshot to restore in it, or None if it is at the right point."""
        self.referee.admit_reset()
        if self._has("fork"):
            return (yield from self._live_copy()), None
        if self._has("snapshot"):
            snapshot = yield from self.snapshotting()
            try:
                return self._plan.build(), snapshot
            except UnsupportedError:  # an instance that cannot be built again
                return self._copy(hint="pass its class, or a function that makes it"), snapshot
        return self._copy(), None

    def _live_copy(self) -> Flow[Any]:
        """What the environment's own `fork` made, wrapped as the environment itself is."""
        env = yield from self._asking("fork")
        return self._plan.prepared(env, f"fork of {self.id} returned")


def close_soon(env: Any) -> None:
    """Close an environment that no handle has: on a thread, or on the running loop if it is async."""
    close = getattr(env, "close", None)
    if close is None:
        return
    if inspect.iscoroutinefunction(close):
        import asyncio  # async environments need it anyway

        from envweave.core.loop import BACKGROUND, running_loop

        asyncio.run_coroutine_threadsafe(close(), running_loop() or BACKGROUND.loop)
    else:
        from envweave.core.threads import start

        start(close)

"""Backends in this process that record themselves: a server runs the flows of a backend, and not its calls."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from envweave.core.branching import EpisodeSnapshot
from envweave.core.flow import Flow
from envweave.core.local import AsyncLocalBackend, LocalBackend, LocalOperations, is_async
from envweave.core.operations import LocalPlan
from envweave.errors import EnvError, EnvWeaveError, describe
from envweave.record.recording import Recording
from envweave.requests import Request
from envweave.results import ResetResult, StepResult


def open_recorded(plan: LocalPlan, id: str, env: Any, recording: Recording) -> LocalBackend | AsyncLocalBackend:
    """As `open_local`, with a recording of the environment."""
    kind = RecordedAsyncLocalBackend if is_async(env) else RecordedLocalBackend
    try:
        backend = kind(plan, id, env)
    except EnvWeaveError:
        raise
    except Exception as error:  # attributes of an environment may raise when they are looked at
        raise EnvError(f"{id} cannot be used: {describe(error)}") from error
    backend.recording = recording
    return backend


class RecordedOperations(LocalOperations):
    """The operations that change an episode, each with its line. What runs inside of another is part of that one."""

    recording: Recording
    _inside = False

    def _recorded(self, kind: str, data: Any, flow: Callable[[], Flow[Any]]) -> Flow[Any]:
        if self._inside:
            return (yield from flow())
        self._inside, began = True, monotonic()
        try:
            reply = yield from flow()
        except BaseException as error:
            self.recording.observe(kind, data, None, error, began, self.referee)
            raise
        finally:
            self._inside = False
        self.recording.observe(kind, data, reply, None, began, self.referee)
        return reply

    def resetting(self, data: dict[str, Any]) -> Flow[ResetResult[Any]]:
        return self._recorded("reset", data, lambda: super(RecordedOperations, self).resetting(data))

    def advancing(self, native: Any) -> Flow[StepResult[Any]]:
        return self._recorded("advance", native, lambda: super(RecordedOperations, self).advancing(native))

    def responding(self, data: dict[str, Any]) -> Flow[StepResult[Any]]:
        return self._recorded("respond", data, lambda: super(RecordedOperations, self).responding(data))

    def restoring(self, snapshot: EpisodeSnapshot) -> Flow[None]:
        return self._recorded("restore", snapshot, lambda: super(RecordedOperations, self).restoring(snapshot))

    def snapshotting(self) -> Flow[EpisodeSnapshot]:
        snapshot = yield from self._recorded("snapshot", None, super().snapshotting)
        return self.recording.marked(snapshot)  # type: ignore[no-any-return]

    def copying(self) -> Flow[EpisodeSnapshot]:
        return self.recording.marked((yield from super().copying()))  # type: ignore[no-any-return]

    def closing(self) -> Flow[tuple[Request, ...]]:
        return self._recorded("close", None, lambda: super(RecordedOperations, self).closing())


class RecordedLocalBackend(RecordedOperations, LocalBackend):
    """A sync environment. Its fast paths are recorded too."""

    def advance(self, admitted: Any) -> Any:
        return self._timed("advance", admitted, super().advance)

    def _reset(self, data: dict[str, Any]) -> Any:
        return self._timed("reset", data, super()._reset)

    def _timed(self, kind: str, data: Any, call: Callable[[Any], Any]) -> Any:
        if self._inside:
            return call(data)
        self._inside, began = True, monotonic()
        try:
            reply = call(data)
        except BaseException as error:
            self.recording.observe(kind, data, None, error, began, self.referee)
            raise
        finally:
            self._inside = False
        self.recording.observe(kind, data, reply, None, began, self.referee)
        return reply


class RecordedAsyncLocalBackend(RecordedOperations, AsyncLocalBackend):
    """An async environment."""

"""A backend whose calls are recorded: for handles, here and on servers, sync and for `await`."""

from __future__ import annotations

from time import monotonic
from typing import Any

from envweave.core.backend import Backend
from envweave.core.handle import EnvHandle
from envweave.core.wrapped import WrappedBackend
from envweave.record.recording import STEPS, Recording

RECORDED = frozenset({"reset", "restore", "snapshot", "last", "close", *STEPS})
"""Calls that change the episode. The others pass."""


class RecordingBackend(WrappedBackend):
    """The backend of another handle. Forks are recorded too."""

    def __init__(self, handle: EnvHandle[Any, Any, Any, Any], recording: Recording) -> None:
        super().__init__(handle)
        self.recording = recording

    @property
    def ended(self) -> Any:
        """As the wrapped backend has it, for a vector."""
        return getattr(self.inner, "ended", None)

    def call(self, kind: str, data: Any = None) -> Any:
        began = monotonic()
        try:
            reply = self.perform(kind, data)
        except BaseException as error:
            self._observe(kind, data, None, error, began)
            raise
        return self._observe(kind, data, reply, None, began)

    async def acall(self, kind: str, data: Any = None) -> Any:
        began = monotonic()
        try:
            reply = await self.perform_async(kind, data)
        except BaseException as error:
            self._observe(kind, data, None, error, began)
            raise
        return self._observe(kind, data, reply, None, began)

    def _observe(self, kind: str, data: Any, reply: Any, error: BaseException | None, began: float) -> Any:
        if isinstance(reply, Backend):
            return RecordingBackend(self.twin(reply), self.recording.forked())
        if kind in RECORDED:
            self.recording.observe(kind, data, reply, error, began, self.episode)
        return self.recording.marked(reply) if kind == "snapshot" and error is None else reply


def recorded(handle: EnvHandle[Any, Any, Any, Any], recording: Recording) -> EnvHandle[Any, Any, Any, Any]:
    """A handle on the same environment whose calls are recorded. Calls on the original bypass the record."""
    return EnvHandle(RecordingBackend(handle, recording), handle.spec)

"""An executor whose calls are recorded, for environments on servers: their steps do not pass through a backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from envweave.core.backend import Backend
from envweave.core.handle import EnvHandle
from envweave.errors import RecordError
from envweave.record import Recorder
from envweave.record.backend import RECORDED, RecordingBackend
from envweave.record.encoding import decode
from envweave.record.recording import Recording
from envweave.vector.executor import Done, Executor
from envweave.vector.slot import Slot


class RecordingExecutor(Executor):
    """Passes all calls on. Each slot has a recording, also if its backend is replaced."""

    def __init__(self, inner: Executor, recorder: Recorder, header: Mapping[str, Any]) -> None:
        self._inner = inner
        self._recorder = recorder
        self._header = header
        self._recordings: dict[Slot, Recording] = {}
        self.inline = inner.inline  # type: ignore[misc]
        self.refuses_late = inner.refuses_late  # type: ignore[misc]

    def submit(self, slot: Slot, kind: str, data: Any, done: Done) -> None:
        if kind not in RECORDED:
            self._inner.submit(slot, kind, data, done)
            return
        began = monotonic()

        def observed(reply: Any, error: BaseException | None) -> None:
            action = decode(data) if isinstance(data, bytes) else data
            try:
                self._recording(slot).observe(kind, action, reply, error, began, slot.episode)
            except RecordError as failure:
                reply, error = None, failure
            done(reply, error)

        self._inner.submit(slot, kind, data, observed)

    def _recording(self, slot: Slot) -> Recording:
        if slot not in self._recordings:
            self._recordings[slot] = Recording(self._recorder, self._header)
        return self._recordings[slot]

    def flush(self) -> None:
        self._inner.flush()

    def deadline(self) -> float | None:
        return self._inner.deadline()

    def expire(self) -> None:
        self._inner.expire()

    def fork(self, slot: Slot) -> Backend:
        handle: EnvHandle[Any, Any, Any, Any] = EnvHandle(self._inner.fork(slot))
        return RecordingBackend(handle, self._recording(slot).forked())

    def close(self, slots: Sequence[Slot], timeout: float) -> set[Slot]:
        stuck = self._inner.close(slots, timeout)
        for slot in slots:
            if slot in self._recordings:
                self._recordings[slot].observe("close", None, (), None, monotonic(), slot.episode)
        return stuck

    @property
    def abandoned(self) -> int:
        return int(getattr(self._inner, "abandoned", 0))

"""All environments in the caller's thread, one after the other: the fastest way for cheap steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from envweave.vector.executor import Done, LocalExecutor, close_backend
from envweave.vector.slot import Slot


class InprocExecutor(LocalExecutor):
    """What is submitted runs at once."""

    inline: ClassVar[bool] = True

    def submit(self, slot: Slot, kind: str, data: Any, done: Done) -> None:
        try:
            reply = self.perform(slot, slot.backend, kind, data)
        except Exception as error:  # Ctrl-C goes to the caller
            done(None, error)
        else:
            done(reply, None)

    def close(self, slots: Sequence[Slot], timeout: float) -> set[Slot]:
        interrupted = None
        for slot in slots:
            try:
                close_backend(slot.backend)
            except KeyboardInterrupt as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted
        return set()

"""The two ends of a worker's channel and outputs: ours to keep, theirs to be handed over."""

from __future__ import annotations

import os
from contextlib import ExitStack

from envweave.sandbox.guest.frames import close_all, frame_bytes
from envweave.sandbox.line import Line, pair, pipe


class Ends:
    """A context: theirs are closed at its end, for they have been handed over, and ours too unless they were taken."""

    def __enter__(self) -> Ends:
        with ExitStack() as undo:
            self._sock, self._their_sock = pair()
            undo.callback(self._sock.close)
            undo.callback(self._their_sock.close)
            self._out, their_out = pipe()
            undo.callback(close_all, (self._out, their_out))
            self._err, their_err = pipe()
            undo.pop_all()
        self.theirs = (self._their_sock.fileno(), their_out, their_err)
        self._taken = False
        return self

    def take(self, return_bytes: int) -> tuple[Line, int, int]:
        """Ours: the channel, and the reading ends of both outputs."""
        self._taken = True
        return Line(self._sock, limit=frame_bytes(return_bytes)), self._out, self._err

    def __exit__(self, *_: object) -> None:
        self._their_sock.close()
        for descriptor in self.theirs[1:]:
            os.close(descriptor)
        if not self._taken:
            self._sock.close()
            os.close(self._out)
            os.close(self._err)

"""The quick steps of a batch, one after the other in one thread, and their answers in one frame.

As on the express, a step that is not quick after all holds up nobody: the loop looks, takes the hung one over as an
ordinary call and lets another thread go on with the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from envweave.server.claim import Claim
from envweave.server.express import HUNG_AFTER
from envweave.server.host import Form, Reply
from envweave.server.session import Session
from envweave.server.threads import Threads

TOGETHER = 32
"""Answers that are sent together, if there are so many."""

Put = Callable[[int, int, Reply], None]
Written = Callable[[int, int, Reply], bytes]
Send = Callable[[list[bytes]], None]


class Row(NamedTuple):
    """One step."""

    session: Session
    ref: int
    number: int
    action: Any


class Sweep:
    """Runs rows of different sessions. `start` is for the loop's thread."""

    def __init__(self, threads: Threads, rows: list[Row], written: Written, send: Send, put: Put) -> None:
        """`send` takes answers that are written; `put` that of a step which went the ordinary way in the end."""
        self._threads = threads
        self._loop = threads.loop
        self._rows = deque(rows)
        self._written = written
        self._send = send
        self._put = put
        self._texts: deque[bytes] = deque()
        self._running: tuple[Row, Claim] | None = None
        self._seen: tuple[Row, Claim] | None = None

    def start(self) -> None:
        self._threads.submit(self._run, self._ended, quick=True)
        self._loop.call_later(HUNG_AFTER, self._look)

    def _run(self) -> None:
        """In a thread of the pool."""
        while True:
            try:
                row = self._rows.popleft()
            except IndexError:
                return
            session = row.session
            reply = session.step_here(row.action, Form.EXTENDED, Claim(partial(self._begun, row)), row.number)
            if reply is session.taken:
                return  # another thread goes on
            if reply is None:
                self._loop.call_soon_threadsafe(self._call, row)
            else:
                self._texts.append(self._written(row.ref, row.number, reply))
                if len(self._texts) == TOGETHER:  # the client can read these while the others are run
                    self._loop.call_soon_threadsafe(self._ended, None)

    def _begun(self, row: Row, claim: Claim) -> None:
        self._running = (row, claim)

    def _call(self, row: Row) -> None:
        """A step that cannot be run this way: it was run already, or the session is busy or gone."""
        row.session.call("step", row.action, Form.EXTENDED, partial(self._put, row.ref, row.number), row.number)

    def _ended(self, _: Any) -> None:
        """Send the answers there are; a thread may add to them meanwhile."""
        texts = []
        while self._texts:
            texts.append(self._texts.popleft())
        if texts:
            self._send(texts)

    def _look(self) -> None:
        running = self._running
        if running is not None and running is self._seen and running[1].take():
            row, self._running = running[0], None
            self._ended(None)
            row.session.wait(partial(self._put, row.ref, row.number))
            if self._rows:
                self._threads.submit(self._run, self._ended)
        self._seen = running
        if self._rows or (running is not None and running[1].free):
            self._loop.call_later(HUNG_AFTER, self._look)

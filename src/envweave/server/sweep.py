"""The quick steps of a batch, one after the other in one thread, and their answers in a few frames.

As on the express, a step that is not quick after all delays no other: the loop looks, takes the hung one over as an
ordinary call and lets another thread go on with the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

from envweave.errors import EnvWeaveError
from envweave.server.claim import Claim
from envweave.server.express import HUNG_AFTER
from envweave.server.host import Form, Reply
from envweave.server.session import Session
from envweave.server.threads import Threads

TOGETHER = 64
"""Answers that are sent together, if there are so many."""

Put = Callable[[int, int, Reply], None]
Written = Callable[[int, int, Reply], bytes]
Send = Callable[[list[bytes]], None]


class BatchedStep(Claim):
    """One step of a batch."""

    __slots__ = ("action", "number", "problem", "ref", "session", "sweep")

    def __init__(self, ref: Any, number: Any, action: Any) -> None:
        self.ref = ref
        self.number = number
        self.action = action
        self.session: Session | None = None
        """None if there is no session with this ref."""
        self.problem: EnvWeaveError | None = None
        """Why the action is refused."""
        self.sweep: Sweep | None = None
        self._token = [None]

    def begin(self) -> None:
        if self.sweep is not None:
            self.sweep.running = self


class Sweep:
    """Runs steps of different sessions. `start` is for the loop's thread."""

    def __init__(self, threads: Threads, steps: list[BatchedStep], written: Written, send: Send, put: Put) -> None:
        """`send` takes answers that are written; `put` that of a step which went the ordinary way in the end."""
        for step in steps:
            step.sweep = self
        self.running: BatchedStep | None = None
        self._threads = threads
        self._loop = threads.loop
        self._steps = deque(steps)
        self._written = written
        self._send = send
        self._put = put
        self._texts: deque[bytes] = deque()
        self._seen: BatchedStep | None = None

    def start(self) -> None:
        self._threads.submit(self._run, self._ended, quick=True)
        self._loop.call_later(HUNG_AFTER, self._look)

    def _run(self) -> None:
        """In a thread of the pool."""
        sent = Lock()
        sent.acquire()
        while True:
            try:
                step = self._steps.popleft()
            except IndexError:
                return
            session: Any = step.session
            reply = session.step_here(step.action, Form.EXTENDED, step, step.number)
            if reply is session.taken:
                return  # another thread goes on
            if reply is None:
                self._loop.call_soon_threadsafe(self._call, step)
                continue
            self._texts.append(self._written(step.ref, step.number, reply))
            if len(self._texts) >= TOGETHER and self._steps:
                # The client reads these while the others are run. This thread waits until they are sent, because it
                # would not let the loop have the interpreter for some milliseconds.
                self._loop.call_soon_threadsafe(self._send_some, sent)
                sent.acquire(timeout=HUNG_AFTER)

    def _send_some(self, sent: Lock) -> None:
        self._ended(None)
        self._loop.call_soon(sent.release)  # the connection is written to before that

    def _call(self, step: BatchedStep) -> None:
        """A step that cannot be run this way: it was run already, or the session is busy or gone."""
        session: Any = step.session
        session.call("step", step.action, Form.EXTENDED, partial(self._put, step.ref, step.number), step.number)

    def _ended(self, _: Any) -> None:
        """Send the answers there are; a thread may add to them meanwhile."""
        texts = []
        while self._texts:
            texts.append(self._texts.popleft())
        if texts:
            self._send(texts)

    def _look(self) -> None:
        running = self.running
        if running is not None and running is self._seen and running.take():
            self.running = None
            self._ended(None)
            session: Any = running.session
            session.wait(partial(self._put, running.ref, running.number))
            if self._steps:
                self._threads.submit(self._run, self._ended)
        self._seen = running
        if self._steps or (running is not None and running.free):
            self._loop.call_later(HUNG_AFTER, self._look)
